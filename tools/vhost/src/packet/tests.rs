use super::*;
use crate::offload::tests::{offload, segments, sums_are_right, tcp};

const SOURCE: Source = Source { vm: 5, ring: 2 };
/// The offset of the byte with the ECN field, in a frame without VLAN tags.
const ECN_BYTE: usize = 15;

/// Returns a frame with `payload` bytes of data whose ECN field is `codepoint`.
fn frame(v6: bool, codepoint: u8, payload: usize) -> Vec<u8> {
    let mut frame = tcp(v6, 0x18, &vec![7; payload]);
    if v6 {
        frame[ECN_BYTE] |= codepoint << 4;
    } else {
        frame[ECN_BYTE] |= codepoint;
        frame[24..26].fill(0);
        let sum = crate::offload::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

fn codepoint(frame: &[u8], v6: bool) -> u8 {
    if v6 { frame[ECN_BYTE] >> 4 & 3 } else { frame[ECN_BYTE] & 3 }
}

#[test]
fn the_ecn_field_and_the_flow_come_from_the_headers() {
    for v6 in [false, true] {
        for (bits, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
            let packet = Packet::new(frame(v6, bits, 100), Offload::default(), SOURCE);
            assert_eq!((packet.ecn(), packet.source), (ecn, SOURCE));
            let mut other = frame(v6, bits, 100);
            let ports = if v6 { 54 } else { 34 };
            other[ports] ^= 1;
            let other = Packet::new(other, Offload::default(), SOURCE);
            assert_ne!(packet.flow_hash(), other.flow_hash(), "another port");
        }
    }
    let foreign = Packet::new(vec![0; 60], Offload::default(), SOURCE);
    assert_eq!((foreign.ecn(), foreign.flow_hash()), (Ecn::NotEct, 5), "not IP");
}

#[test]
fn a_mark_changes_the_ecn_field_and_keeps_all_checksums_right() {
    for (v6, bits) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        let whole = Offload { segments: None, ..offload(v6, 0) };
        let plain = segments(&frame(v6, bits, 100), whole).remove(0);
        assert!(sums_are_right(&plain, v6));
        let mut packet = Packet::new(plain.clone(), Offload::default(), SOURCE);
        packet.set_ce();
        assert!(packet.is_marked() && packet.ecn() == Ecn::Ce);
        assert_eq!(codepoint(&packet.bytes, v6), 3);
        assert!(sums_are_right(&packet.bytes, v6), "v6 {v6}, from {bits}");
        let changed = plain.iter().zip(&packet.bytes).filter(|(a, b)| a != b).count();
        assert!(changed <= 3, "the ECN field and a checksum: {changed} bytes");
    }
    let mut arrived = Packet::new(frame(false, 3, 100), Offload::default(), SOURCE);
    arrived.set_ce();
    assert!(!arrived.is_marked(), "the guest sent it with CE");
}

#[test]
fn every_segment_of_a_marked_super_packet_is_marked_with_right_checksums() {
    for v6 in [false, true] {
        let offload = offload(v6, 1000);
        let mut packet = Packet::new(frame(v6, 1, 3500), offload, SOURCE);
        packet.set_ce();
        let all = segments(&packet.bytes, offload);
        assert_eq!(all.len(), 4);
        for segment in all {
            assert!(codepoint(&segment, v6) == 3 && sums_are_right(&segment, v6));
        }
    }
}

#[test]
fn a_packet_with_a_vlan_tag_is_marked_behind_its_tag() {
    let mut tagged = frame(false, 1, 100);
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let mut packet = Packet::new(tagged, Offload::default(), SOURCE);
    assert_eq!(packet.ecn(), Ecn::Ect1);
    packet.set_ce();
    assert_eq!(packet.bytes[ECN_BYTE + 4] & 3, 3);
    assert_eq!(crate::offload::checksum::of(&packet.bytes[18..38]), 0);
}
