//! Reads untrusted datagrams of sFlow. What is read fits into the datagram, and each record is that
//! of one packet with octets and a destination.
#![no_main]

use forebay_plan::flows::sflow;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(read) = sflow::datagram(data, 1000) else { return };
    assert!(40 * read.samples.len() + 8 * read.packetless as usize <= data.len());
    assert!(read.unread.iter().all(|(at, why)| *at <= data.len() && !why.is_empty()));
    let mut last = 0;
    for sample in &read.samples {
        assert!(sample.place > last && sample.place < data.len());
        last = sample.place;
        let Some(flow) = sample.flow else { continue };
        assert!(flow.packets == Some(1) && flow.octets.is_some());
        assert!(flow.destination().is_some());
        assert!(flow.sampling.factor().is_none_or(|factor| factor >= 1.0));
    }
});
