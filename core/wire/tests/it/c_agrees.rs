//! The parser and the fingerprint in Rust and in C agree on every frame.

use std::sync::LazyLock;

use forebay_test_support::frames::{KEY, Vector, any_frame, vectors};
use forebay_wire::{FingerprintKey, Frame, Segment, fingerprint};
use forebay_wire_c::assert_agrees;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

static VECTORS: LazyLock<Vec<Vector>> = LazyLock::new(vectors);

fn any_segment() -> impl Strategy<Value = Segment> {
    let offset = prop_oneof![Just(0), any::<u32>()];
    (any::<u16>(), offset, any::<u16>()).prop_map(|(index, offset, payload_len)| Segment {
        index,
        offset,
        payload_len,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn they_agree_on_random_frames(
        frame in any_frame(),
        key: [u64; 2],
        segment in any_segment(),
    ) {
        assert_agrees(&frame, &FingerprintKey(key), &segment);
    }

    #[test]
    fn they_agree_on_vectors_with_a_byte_changed(
        vector in 0..VECTORS.len(),
        place in any::<prop::sample::Index>(),
        value: u8,
        segment in any_segment(),
    ) {
        let mut frame = VECTORS[vector].frame.clone();
        let len = frame.len();
        frame[place.index(len)] = value;
        assert_agrees(&frame, &KEY, &segment);
    }
}

#[test]
fn they_agree_on_vectors_cut_anywhere() {
    let segment = Segment { index: 1, offset: 100, payload_len: 100 };
    for v in VECTORS.iter() {
        (0..=v.frame.len()).for_each(|end| assert_agrees(&v.frame[..end], &KEY, &segment));
    }
}

/// The tests above need random frames that are mostly well-formed.
#[test]
fn random_frames_are_mostly_packets() {
    let mut runner = TestRunner::deterministic();
    let frames: Vec<_> =
        (0..2000).map(|_| any_frame().new_tree(&mut runner).unwrap().current()).collect();
    let parsed = frames.iter().filter_map(|f| match Frame::parse(f) {
        Ok(Frame::Ip(h)) => Some((h, fingerprint(f, &h, &KEY))),
        _ => None,
    });
    let (mut packets, mut fingerprints, mut fragments, mut extensions) = (0, 0, 0, 0);
    for (headers, fingerprint) in parsed {
        packets += 1;
        fingerprints += usize::from(fingerprint.is_some());
        fragments += usize::from(headers.fragment.is_some());
        let plain = headers.network_offset + 40;
        extensions += usize::from(headers.source.is_ipv6() && headers.transport_offset > plain);
    }
    assert!(packets > 1000, "{packets}");
    assert!(fingerprints > 700, "{fingerprints}");
    assert!(fragments > 100, "{fragments}");
    assert!(extensions > 50, "{extensions}");
}
