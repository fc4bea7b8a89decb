//! Compares the fingerprint in Rust with the C code of the BPF programs, on arbitrary frames and
//! segments.
#![no_main]

use forebay_wire::Segment;
use forebay_wire_c::assert_agrees;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    // The end of the frame is seldom looked at, so it may as well say which segment to take.
    let &[.., a, b, c, d, e, f] = frame else { return assert_agrees(frame, &NONE) };
    let segment = Segment {
        index: u16::from_be_bytes([a, b]),
        offset: u32::from_be_bytes([0, 0, c, d]),
        payload_len: u16::from_be_bytes([e, f]),
    };
    assert_agrees(frame, &segment);
});

const NONE: Segment = Segment { index: 0, offset: 0, payload_len: 0 };
