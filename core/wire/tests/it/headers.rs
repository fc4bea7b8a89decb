//! Parsing of frames, ECN marking and the flow hash.

use std::collections::HashSet;
use std::net::IpAddr;

use forebay_test_support::frames::{any_frame, frame, vectors};
use forebay_wire::{Fragment, Frame, Headers, ParseError, Ports, set_ce, vlan};
use proptest::prelude::*;

fn headers(name: &str) -> Headers {
    match Frame::parse(&frame(name)) {
        Ok(Frame::Ip(headers)) => headers,
        other => panic!("{name}: {other:?}"),
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn every_field_of_an_ipv4_packet_is_parsed() {
    let expected = Headers {
        source: address("192.0.2.10"),
        destination: address("198.51.100.20"),
        protocol: 6,
        dscp: 0x2e,
        ecn: 3,
        ports: Some(Ports { source: 443, destination: 51000 }),
        id: 0x4321,
        fragment: None,
        network_offset: 14,
        transport_offset: 34,
        transport_len: 52,
    };
    assert_eq!(headers("ipv4-tcp-ttl-ecn-dscp-changed"), expected);
}

#[test]
fn every_field_of_an_ipv6_packet_is_parsed() {
    let expected = Headers {
        source: address("2001:db8:1::10"),
        destination: address("2001:db8:2::20"),
        protocol: 17,
        dscp: 0,
        ecn: 0,
        ports: Some(Ports { source: 4433, destination: 52000 }),
        id: 0,
        fragment: None,
        network_offset: 14,
        transport_offset: 14 + 40 + 48,
        transport_len: 8 + 101,
    };
    assert_eq!(headers("ipv6-three-extensions-udp"), expected);
    let changed = headers("ipv6-tcp-class-flow-hops-changed");
    assert_eq!((changed.dscp, changed.ecn), (63, 3));
    assert_eq!(headers("vlan-in-vlan").network_offset, 22);
}

#[test]
fn padding_and_link_headers_are_not_part_of_a_packet() {
    // A bare acknowledgement has 40 bytes, 54 with its Ethernet header and 60 on the wire.
    let mut ack = frame("ipv4-tcp-ttl-ecn-dscp-changed");
    ack[16..18].copy_from_slice(&40_u16.to_be_bytes());
    ack.resize(60, 0);
    let Ok(Frame::Ip(headers)) = Frame::parse(&ack) else { panic!("a packet") };
    assert_eq!((headers.ip_len(60), headers.ip_len(54)), (40, 40));
    // A truncated packet is as long as its frame.
    assert_eq!((headers.ip_len(50), headers.ip_len(10)), (36, 0));
}

/// The same packet of 72 bytes in IPv4, or of 92 in IPv6, in every framing: the lengths of the
/// frames are added up by hand from the headers.
#[test]
fn a_packet_has_one_length_in_every_framing() {
    for (name, link_header, ip_len) in [
        ("ipv4-tcp", 14, 72),
        ("ipv6-tcp", 14, 92),
        ("vlan", 14 + 4, 72),
        ("vlan-in-vlan", 14 + 4 + 4, 92),
        ("pppoe-ipv4", 14 + 6 + 2, 72),
        ("pppoe-ipv6", 14 + 6 + 2, 92),
        ("pppoe-in-vlan", 14 + 4 + 6 + 2, 72),
        ("mpls-ipv4", 14 + 4, 72),
        ("mpls-ipv6", 14 + 4, 92),
        ("mpls-four-labels-in-two-vlans", 14 + 4 + 4 + 4 * 4, 92),
        ("ipv6-three-extensions-udp", 14, 40 + 48 + 8 + 101),
    ] {
        let (headers, frame) = (headers(name), frame(name));
        assert_eq!(usize::from(headers.network_offset), link_header, "{name}");
        assert_eq!((frame.len() - link_header, headers.ip_len(9_000)), (ip_len, ip_len), "{name}");
        let packet = &frame[link_header..];
        assert_eq!(Headers::parse_ip(packet).unwrap().ip_len(packet.len()), ip_len, "{name}");
    }
    // The frame has 14, 8 and 40 bytes, and six of padding.
    assert_eq!(frame("pppoe-ipv4-padded").len(), 68);
    assert_eq!(headers("pppoe-ipv4-padded").ip_len(68), 40);
    // 70 000 bytes follow the IPv6 header of 40.
    let jumbogram = headers("jumbogram");
    assert_eq!(jumbogram.transport_len, 70_000 - 8);
    assert_eq!(jumbogram.ip_len(100_000), 70_040);
}

#[test]
fn fragments_are_parsed() {
    let first = headers("ipv6-fragment-first");
    assert_eq!(first.fragment, Some(Fragment { offset: 0, more: true }));
    assert_eq!(first.id, 0xdead_beef);
    assert!(first.ports.is_some() && first.has_transport());
    let last = headers("ipv6-fragment-last");
    assert_eq!(last.fragment, Some(Fragment { offset: 4, more: false }));
    assert!(last.ports.is_none() && !last.has_transport());
    let middle = headers("ipv4-fragment-middle");
    assert_eq!(middle.fragment, Some(Fragment { offset: 4, more: true }));
    assert_eq!(headers("ipv6-fragment-only").fragment, Some(Fragment { offset: 0, more: false }));
}

#[test]
fn frames_that_are_not_ip_packets_are_distinguished() {
    let parse = |name: &str| Frame::parse(&frame(name));
    assert_eq!(parse("arp"), Ok(Frame::Arp));
    assert_eq!(parse("lldp"), Ok(Frame::Other));
    for name in ["pppoe-link-control", "pppoe-discovery", "length-instead-of-ethertype"] {
        assert_eq!(parse(name), Ok(Frame::Other), "{name}");
    }
    for name in [
        "three-vlan-tags",
        "mpls-five-labels",
        "mpls-pseudowire",
        "pppoe-mpls",
        "pppoe-version-2",
        "pppoe-discovery-code-in-session",
        "macsec",
    ] {
        assert_eq!(parse(name), Ok(Frame::Unknown), "{name}");
    }
    for name in [
        "cut-in-ethernet",
        "cut-in-vlan",
        "cut-in-ipv4",
        "cut-in-ipv6",
        "cut-in-extension",
        "cut-in-pppoe",
        "cut-in-mpls",
        "cut-after-mpls",
        "jumbogram-cut-in-option",
    ] {
        assert_eq!(parse(name), Err(ParseError::Truncated), "{name}");
    }
    for name in [
        "ipv4-total-length-under-header",
        "ipv4-header-length-4",
        "ipv6-extension-past-payload",
        "jumbogram-of-64-kib",
        "jumbogram-without-option",
    ] {
        assert_eq!(parse(name), Err(ParseError::BadLength), "{name}");
    }
    for name in ["ipv4-called-ipv6", "pppoe-ipv6-called-ipv4"] {
        assert_eq!(parse(name), Err(ParseError::BadVersion), "{name}");
    }
    assert_eq!(parse("ipv6-seven-extensions-tcp"), Err(ParseError::TooManyExtensions));
    assert_eq!(parse("ipv6-144-bytes-of-extensions"), Err(ParseError::HeadersTooLong));
}

/// The ID is that of the outermost of two tags, without its priority, for 802.1ad and 802.1Q.
#[test]
fn the_vlan_id_of_a_frame_is_found() {
    let frame = |tags: &[[u8; 4]]| {
        let mut frame = vec![0x5a; 12];
        tags.iter().for_each(|tag| frame.extend(tag));
        frame.extend([0x08, 0x00, 0x45]);
        frame
    };
    assert_eq!(vlan(&frame(&[])), None);
    assert_eq!(vlan(&frame(&[[0x81, 0x00, 0xa0, 0x07]])), Some(7));
    assert_eq!(vlan(&frame(&[[0x88, 0xa8, 0x0f, 0xfe], [0x81, 0x00, 0, 7]])), Some(4094));
    let cut = frame(&[[0x81, 0x00, 0xa0, 0x07]]);
    assert_eq!(vlan(&cut[..15]), None);
}

#[test]
fn a_packet_without_ethernet_gives_the_same_headers() {
    for v in vectors() {
        let Ok(Frame::Ip(inside)) = Frame::parse(&v.frame) else { continue };
        let mut bare = Headers::parse_ip(&v.frame[inside.network_offset.into()..]).unwrap();
        bare.transport_offset += inside.network_offset;
        bare.network_offset = inside.network_offset;
        assert_eq!(bare, inside, "{}", v.name);
    }
    assert_eq!(Headers::parse_ip(&[]), Err(ParseError::Truncated));
    assert_eq!(Headers::parse_ip(&[0x50; 40]), Err(ParseError::BadVersion));
}

/// Returns the ones' complement sum over the IPv4 header, all ones if its checksum is right.
fn header_sum(frame: &[u8], headers: &Headers) -> u16 {
    let (start, end) = (headers.network_offset.into(), headers.transport_offset.into());
    let words = frame[start..end].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[test]
fn marking_updates_the_checksum() {
    let mut marked = 0;
    for v in vectors() {
        let Ok(Frame::Ip(headers)) = Frame::parse(&v.frame) else { continue };
        for ecn in 0..4 {
            let mut frame = v.frame.clone();
            let at = usize::from(headers.network_offset);
            if headers.source.is_ipv6() {
                frame[at + 1] = frame[at + 1] & !0x30 | ecn << 4;
            } else {
                frame[at + 1] = frame[at + 1] & !3 | ecn;
                frame[at + 10..at + 12].fill(0);
                let checksum = !header_sum(&frame, &headers);
                frame[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            set_ce(&mut frame, &headers);
            assert_eq!(Frame::parse(&frame), Ok(Frame::Ip(Headers { ecn: 3, ..headers })));
            if headers.source.is_ipv4() {
                assert_eq!(header_sum(&frame, &headers), 0xffff, "{} {ecn}", v.name);
            }
            marked += 1;
        }
    }
    assert!(marked > 200);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// RFC 1624's older equation fails where a checksum is zero in one of its two forms. All 2^16
    /// checksums are likely here.
    #[test]
    fn marking_updates_any_checksum(id: u16, addresses: [u8; 8], tos: u8) {
        let mut frame = frame("ipv4-tcp");
        frame[15] = tos;
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[26..34].copy_from_slice(&addresses);
        frame[24..26].fill(0);
        let Ok(Frame::Ip(headers)) = Frame::parse(&frame) else { panic!() };
        let checksum = !header_sum(&frame, &headers);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        set_ce(&mut frame, &headers);
        prop_assert_eq!(header_sum(&frame, &headers), 0xffff);
    }

    /// The caller may pass headers of another frame. Marking must not panic.
    #[test]
    fn marking_a_truncated_frame_is_safe(frame in any_frame(), end in any::<prop::sample::Index>()) {
        if let Ok(Frame::Ip(headers)) = Frame::parse(&frame) {
            let mut cut = frame[..end.index(frame.len())].to_vec();
            set_ce(&mut cut, &headers);
            prop_assert_eq!(cut.len(), end.index(frame.len()));
        }
    }
}

#[test]
fn a_flow_has_one_hash() {
    let hash = |name| headers(name).flow_hash();
    for other in ["ipv4-tcp-retransmitted", "ipv4-syn-ack", "ipv4-tcp-ip-options", "vlan"] {
        assert_eq!(hash("ipv4-tcp"), hash(other), "{other}");
    }
    assert_eq!(hash("ipv6-tcp"), hash("ipv6-six-extensions-tcp"));
    assert_ne!(hash("ipv4-tcp"), hash("ipv4-udp"));
    assert_ne!(hash("ipv6-tcp"), hash("ipv6-udp"));
    for (first, other) in [
        ("ipv4-fragment-first", "ipv4-fragment-middle"),
        ("ipv4-fragment-first", "ipv4-fragment-last"),
        ("ipv6-fragment-first", "ipv6-fragment-last"),
        ("ipv6-fragment-first", "ipv6-fragment-last-of-destination-options"),
    ] {
        assert_eq!(hash(first), hash(other), "{other}");
    }
}

type Flow<'a> = &'a dyn Fn(u16) -> Headers;

/// Flows that differ little and in one field only spread over buckets like random numbers.
#[test]
fn similar_flows_spread() {
    const FLOWS: u16 = 16384;
    const BUCKETS: usize = 1024;
    let ports = |i| Some(Ports { source: 443, destination: i });
    let v4 = |i: u16| IpAddr::from([10, 0, (i >> 8) as u8, i as u8]);
    let v6 = |i: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, i]);
    let (four, six) = (headers("ipv4-tcp"), headers("ipv6-tcp"));
    let cases: [(&str, Flow<'_>); 6] = [
        ("ports", &|i| Headers { ports: ports(i), ..four }),
        ("sources", &|i| Headers { source: v4(i), ..four }),
        ("destinations", &|i| Headers { destination: v4(i), ..four }),
        ("IPv6 ports", &|i| Headers { ports: ports(i), ..six }),
        ("IPv6 sources", &|i| Headers { source: v6(i), ..six }),
        ("IPv6 destinations", &|i| Headers { destination: v6(i), ..six }),
    ];
    for (name, flow) in cases {
        let hashes: Vec<_> = (0..FLOWS).map(|i| flow(i).flow_hash()).collect();
        // There are 2^28 pairs among 2^32 values, so 0.03 collisions are expected.
        assert!(hashes.iter().collect::<HashSet<_>>().len() >= usize::from(FLOWS) - 2, "{name}");
        for shift in [0, 22] {
            let mut counts = [0_u32; BUCKETS];
            for hash in &hashes {
                counts[(hash >> shift) as usize % BUCKETS] += 1;
            }
            // Chi-square with 1023 degrees of freedom has mean 1023 and standard deviation 45.
            let mean = f64::from(FLOWS) / BUCKETS as f64;
            let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
            assert!(chi < 1023.0 + 6.0 * 45.0, "{name}, bits from {shift}: {chi}");
        }
    }
}
