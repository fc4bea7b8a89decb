//! Compares the fingerprint in Rust with the C code of the BPF programs, on arbitrary frames and
//! segments.
#![no_main]

use forebay_wire::{FingerprintKey, Segment};
use forebay_wire_c::assert_agrees;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    // The end of the frame is seldom looked at, so it may as well be the key, and say which segment
    // to take.
    let &[.., a, b, c, d, e, f] = frame else { return assert_agrees(frame, &KEY, &NONE) };
    let key = frame.last_chunk().map_or(KEY.0, |k: &[u8; 16]| {
        let whole = u128::from_be_bytes(*k);
        [(whole >> 64) as u64, whole as u64]
    });
    let segment = Segment {
        index: u16::from_be_bytes([a, b]),
        offset: u32::from_be_bytes([0, 0, c, d]),
        payload_len: u16::from_be_bytes([e, f]),
    };
    assert_agrees(frame, &FingerprintKey(key), &segment);
});

const KEY: FingerprintKey = FingerprintKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
const NONE: Segment = Segment { index: 0, offset: 0, payload_len: 0 };
