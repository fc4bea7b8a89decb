//! The shared vectors, checked with the Rust code and with the C code of the BPF programs.

use forebay_test_support::frames::{KEY, frame, vectors};
use forebay_wire::{Frame, Headers, fingerprint, fingerprint_segment};
use forebay_wire_c as c;

fn headers(frame: &[u8]) -> Option<Headers> {
    match Frame::parse(frame) {
        Ok(Frame::Ip(headers)) => Some(headers),
        _ => None,
    }
}

#[test]
fn the_rust_code_matches_the_vectors() {
    for v in vectors() {
        let got = headers(&v.frame).and_then(|h| fingerprint(&v.frame, &h, &KEY));
        assert_eq!(got, v.fingerprint, "{}", v.name);
    }
}

#[test]
fn the_c_code_matches_the_vectors() {
    for v in vectors() {
        let got = c::parse(&v.frame).and_then(|h| c::fingerprint(&v.frame, &h, &KEY, None));
        assert_eq!(got, v.fingerprint, "{}", v.name);
    }
}

#[test]
fn the_fingerprints_of_segments_are_predicted_from_the_super_packet() {
    let mut segments = 0;
    for v in vectors() {
        let Some((of, segment)) = v.segment else { continue };
        let whole = frame(of);
        let got = headers(&whole).and_then(|h| fingerprint_segment(&whole, &h, &KEY, &segment));
        assert_eq!(got, v.fingerprint, "{}", v.name);
        let got = c::parse(&whole).and_then(|h| c::fingerprint(&whole, &h, &KEY, Some(&segment)));
        assert_eq!(got, v.fingerprint, "{} in C", v.name);
        segments += 1;
    }
    assert_eq!(segments, 9);
}

/// Pairs of vectors whose names say whether the network may change the first into the second, or
/// whether the two must be distinguished.
#[test]
fn only_changes_of_hashed_fields_change_a_fingerprint() {
    let of = |name| vectors().into_iter().find(|v| v.name == name).unwrap().fingerprint.unwrap();
    for (one, other) in [
        ("ipv4-tcp", "ipv4-tcp-ttl-ecn-dscp-changed"),
        ("ipv4-tcp", "ipv4-tcp-checksum-and-window-changed"),
        ("ipv4-tcp", "vlan"),
        ("ipv4-tcp", "pppoe-ipv4"),
        ("ipv6-tcp", "pppoe-ipv6"),
        ("ipv4-tcp", "mpls-ipv4"),
        ("ipv6-tcp", "mpls-four-labels-in-two-vlans"),
        ("ipv4-tcp", "ipv4-fragment-first-tcp"),
        ("ipv4-syn-ack", "ipv4-syn-ack-clamped-mss"),
        ("ipv4-tcp-no-id-no-options", "ipv4-tcp-no-id-padded"),
        ("ipv6-tcp", "ipv6-tcp-class-flow-hops-changed"),
    ] {
        assert_eq!(of(one), of(other), "{one} and {other}");
    }
    for (one, other) in [
        ("ipv4-tcp", "ipv4-tcp-retransmitted"),
        ("ipv4-tcp", "ipv4-tcp-next"),
        ("ipv6-tcp", "ipv6-tcp-retransmitted"),
        ("ipv6-tcp-duplicate-ack-1", "ipv6-tcp-duplicate-ack-2"),
        ("ipv4-quic-long-connection-id", "ipv4-quic-next-packet"),
    ] {
        assert_ne!(of(one), of(other), "{one} and {other}");
    }
}

/// Linux leaves the length out of the headers of super-packets of more than 64 KiB: IPv4's since
/// Linux 6.3. The C code takes it from the packet then.
#[test]
fn a_super_packet_may_have_no_length_in_its_header() {
    let plain = |name: &str| match c::parse_as(&frame(name), c::Framing::Ethernet, 0) {
        c::Found::Ip(headers) => headers,
        other => panic!("{name}: {other:?}"),
    };
    for (name, length, whole) in [("ipv4-tcp", 16, 14 + 72), ("ipv6-tcp", 18, 14 + 92)] {
        let mut bytes = frame(name);
        bytes[length..length + 2].fill(0);
        let parse = |whole| c::parse_as(&bytes, c::Framing::Ethernet, whole);
        assert_eq!(parse(whole), c::Found::Ip(plain(name)), "{name}");
        assert_ne!(parse(0), parse(whole), "{name}");
        // A length that is there counts.
        let with = c::parse_as(&frame(name), c::Framing::Ethernet, 9_000);
        assert_eq!(with, c::Found::Ip(plain(name)), "{name}");
    }
}
