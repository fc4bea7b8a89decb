//! Unpacks and decodes an arbitrary file. What it unpacks to keeps to the bound, and begins with
//! what the same file unpacks to if it is cut.
#![no_main]

use forebay_input::{Kind, decode, unpack};
use libfuzzer_sys::fuzz_target;

const MAX_UNPACKED: u64 = 1 << 16;

fuzz_target!(|data: &[u8]| {
    if let Some(kind) = Kind::of(data) {
        assert!(!kind.to_string().is_empty());
    }
    if let Ok((whole, _)) = unpack(data, MAX_UNPACKED) {
        assert!(whole.len() as u64 <= MAX_UNPACKED.max(data.len() as u64));
        // A shorter part may lack the octets that tell the compression.
        let part = &data[..data.len() - data.len() / 4];
        if part.len() >= 32
            && let Ok((part, _)) = unpack(part, MAX_UNPACKED)
        {
            assert!(whole.starts_with(&part));
        }
        let _ = decode(whole);
    }
    let _ = decode(data.to_vec());
});
