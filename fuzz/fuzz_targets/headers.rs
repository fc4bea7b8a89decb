//! Parses the headers of arbitrary frames, and marks the parsed packets.
#![no_main]

use forebay_wire::{FingerprintKey, Frame, Headers, MAX_TRANSPORT_OFFSET, fingerprint, set_ce};
use libfuzzer_sys::fuzz_target;

const KEY: FingerprintKey = FingerprintKey([1, 2]);

fuzz_target!(|frame: &[u8]| {
    // As a TUN device would give it; it need not be a packet.
    let _ = Headers::parse_ip(frame);
    let Ok(Frame::Ip(headers)) = Frame::parse(frame) else { return };
    assert!(usize::from(headers.transport_offset) <= MAX_TRANSPORT_OFFSET.min(frame.len()));
    assert!(headers.network_offset + 20 <= headers.transport_offset);
    assert!(headers.has_transport() || headers.ports.is_none());

    let mut marked = frame.to_vec();
    set_ce(&mut marked, &headers);
    let marked_headers = Headers { ecn: 3, ..headers };
    assert_eq!(Frame::parse(&marked), Ok(Frame::Ip(marked_headers)));
    assert_eq!(marked_headers.flow_hash(), headers.flow_hash());
    assert_eq!(fingerprint(&marked, &marked_headers, &KEY), fingerprint(frame, &headers, &KEY));
    if headers.source.is_ipv4() {
        let sum = |frame: &[u8]| {
            let header = headers.network_offset.into()..headers.transport_offset.into();
            let words = frame[header].chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(w[1]));
            // Zero and 0xffff are the same number in ones' complement.
            words.sum::<u64>() % 0xffff
        };
        assert_eq!(sum(frame), sum(&marked), "the checksum is as right as it was");
    }
});
