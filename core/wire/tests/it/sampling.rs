//! Sampling of epoch boundaries: how those of two epoch sizes relate, and how often they come.

use forebay_test_support::frames::{KEY, frame};
use forebay_wire::feedback::Key;
use forebay_wire::{EpochSize, Frame, fingerprint, is_boundary};
use proptest::prelude::*;

proptest! {
    /// While the boxes disagree about the size, the boundaries of one are all among the other's.
    #[test]
    fn boundaries_of_a_larger_epoch_are_boundaries_of_a_smaller(
        high: u32, zeros in 0..33_u32, small in 0..=24_u8, large in 0..=24_u8,
    ) {
        let fingerprint = high.checked_shl(zeros).unwrap_or(0);
        let (small, large) = (small.min(large), small.max(large));
        let at = |log2| is_boundary(fingerprint, EpochSize::from_log2(log2).unwrap());
        prop_assert!(!at(large) || at(small));
        prop_assert_eq!(at(large), fingerprint.trailing_zeros() >= large.into());
    }
}

type Number<'a> = &'a dyn Fn(&mut Vec<u8>, u32);

/// A bulk flow counts its IDs and sequence numbers up, which is the most regular input. Its
/// boundaries must come at the rate of the epoch size for any size.
#[test]
fn a_single_flow_is_sampled_at_the_rate_of_the_epoch_size() {
    const PACKETS: u32 = 1 << 16;
    let with_id = |frame: &mut Vec<u8>, i: u32| {
        frame[18..20].copy_from_slice(&(i as u16).max(1).to_be_bytes());
        frame[38..42].copy_from_slice(&(i * 1448).to_be_bytes());
    };
    let without_id = |frame: &mut Vec<u8>, i: u32| {
        frame[58..62].copy_from_slice(&(i * 1428).to_be_bytes());
        // There are eight packets for each tick of the timestamp.
        frame[78..82].copy_from_slice(&(i / 8).to_be_bytes());
    };
    let acknowledgements = |frame: &mut Vec<u8>, i: u32| {
        frame[62..66].copy_from_slice(&(i * 2856).to_be_bytes());
    };
    let cases: [(&str, Number<'_>); 3] =
        [("ipv4-tcp", &with_id), ("ipv6-tcp", &without_id), ("ipv6-tcp", &acknowledgements)];
    for (name, number) in cases {
        let mut frame = frame(name);
        let Ok(Frame::Ip(headers)) = Frame::parse(&frame) else { panic!() };
        let fingerprints: Vec<_> = (0..PACKETS)
            .map(|i| {
                number(&mut frame, i);
                fingerprint(&frame, &headers, &KEY).unwrap()
            })
            .collect();
        for log2 in [0, 2, 4, 6, 8] {
            let epoch = EpochSize::from_log2(log2).unwrap();
            let count = fingerprints.iter().filter(|&&f| is_boundary(f, epoch)).count() as f64;
            let expected = f64::from(PACKETS / epoch.packets());
            // The bound is five standard deviations of as many random draws.
            let off = (count - expected).abs();
            assert!(off <= 5.0 * expected.sqrt(), "{name}, {epoch}: {count} not {expected}");
        }
    }
}

/// A stranger crafts packets that are all boundary packets under one key. Under another key they
/// come at the rate of the epoch size.
#[test]
fn packets_that_are_all_boundary_packets_under_one_key_are_not_under_another() {
    let mut frame = frame("ipv4-tcp");
    let Ok(Frame::Ip(headers)) = Frame::parse(&frame) else { panic!() };
    let epoch = EpochSize::from_log2(6).unwrap();
    let own = Key::new([7; 32]).fingerprint_key();
    let (mut crafted, mut sampled) = (0, 0);
    for sequence in 0..1_u32 << 18 {
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        if is_boundary(fingerprint(&frame, &headers, &KEY).unwrap(), epoch) {
            crafted += 1;
            let other = fingerprint(&frame, &headers, &own).unwrap();
            sampled += u32::from(is_boundary(other, epoch));
        }
    }
    // 4096 packets, of which 64 are expected; the bound is five standard deviations.
    assert!((3_700..4_500).contains(&crafted), "{crafted}");
    assert!((24..104).contains(&sampled), "{sampled} of {crafted}");
}
