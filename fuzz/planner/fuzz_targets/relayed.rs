//! Reads untrusted messages of goflow2 and akvorado. The same message is read with its length in
//! front, and a file is read to its end or to what is broken.
#![no_main]

use forebay_plan::flows::relayed::{self, Messages, Relay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = relayed::goflow2(data) {
        let length = data.len();
        if length < 0x80 {
            let delimited = [&[length as u8][..], data].concat();
            // A plain message may by chance begin with its own length.
            let plain = length > 0 && data[0] < 0x80 && usize::from(data[0]) != length - 1;
            assert!(!plain || relayed::goflow2(&delimited) == Ok(record));
        }
        assert!(record.fields.sampling.factor().is_none_or(|factor| factor >= 1.0));
    }
    if let Ok(datagram) = relayed::akvorado(data) {
        assert!(datagram.payload.len() <= data.len());
    }
    for relay in Relay::ALL {
        let (mut end, mut broken) = (0, false);
        for (at, message) in Messages::new(relay, data) {
            assert!(!broken && at >= end && at <= data.len());
            match message {
                Ok(message) => end = at + message.len(),
                Err(_) => broken = true,
            }
        }
        // goflow2 may put a line break behind the last message.
        assert!(broken || end == data.len() || data[end..] == *b"\n");
    }
});
