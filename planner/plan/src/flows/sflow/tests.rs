//! Datagrams of sFlow octet by octet, whole, cut and damaged.

use proptest::prelude::*;

use super::*;

/// A flow sample of an IPv4 packet behind a VLAN tag, and a counter sample, of an agent with an
/// IPv4 address.
#[rustfmt::skip]
pub(crate) const IPV4: [u8; 188] = [
    // Version, agent 192.0.2.1, sub-agent 7, sequence number 9, uptime 4096 ms, two samples.
    0, 0, 0, 5,  0, 0, 0, 1,  192, 0, 2, 1,  0, 0, 0, 7,  0, 0, 0, 9,  0, 0, 0x10, 0,  0, 0, 0, 2,
    // A flow sample of 136 octets: 32 of itself, 24 of a router's record with its header, and 80
    // of a packet's record with its header.
    0, 0, 0, 1,  0, 0, 0, 136,
    // Number 21 of interface 3; one packet of 1000 of a pool of 21 000; 2 drops; from interface 3
    // to 4; two records.
    0, 0, 0, 21,  0, 0, 0, 3,  0, 0, 3, 0xe8,  0, 0, 0x52, 0x08,  0, 0, 0, 2,
    0, 0, 0, 3,  0, 0, 0, 4,  0, 0, 0, 2,
    // An extended router's record, which is skipped: next hop and the lengths of two masks.
    0, 0, 3, 0xea,  0, 0, 0, 16,  0, 0, 0, 1,  10, 0, 0, 1,  0, 0, 0, 24,  0, 0, 0, 16,
    // Ethernet, a frame of 1522 octets of which 4 were stripped, 54 octets of header: 14 + 4 + 20
    // of Ethernet, tag and IP, and 16 of what follows.
    0, 0, 0, 1,  0, 0, 0, 72,  0, 0, 0, 1,  0, 0, 5, 0xf2,  0, 0, 0, 4,  0, 0, 0, 54,
    2, 0, 0, 0, 0, 1,  2, 0, 0, 0, 0, 2,  0x81, 0, 0, 100,  8, 0,
    // The IP packet has 1500 octets.
    0x45, 0, 5, 0xdc,  0, 1, 0, 0,  64, 6, 0, 0,  192, 0, 2, 77,  10, 1, 0, 9,
    0, 80, 0xc0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0x50, 0x10, 0, 0,
    0, 0,
    // A counter sample of 8 octets.
    0, 0, 0, 2,  0, 0, 0, 8,  0, 0, 0, 1,  0, 0, 0, 3,
];

/// An expanded flow sample of an IPv6 packet, of an agent with an IPv6 address.
#[rustfmt::skip]
pub(crate) const IPV6: [u8; 164] = [
    // Agent 2001:db8::1, sub-agent 0, sequence number 1, uptime 0, one sample.
    0, 0, 0, 5,  0, 0, 0, 2,  0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    0, 0, 0, 0,  0, 0, 0, 1,  0, 0, 0, 0,  0, 0, 0, 1,
    // An expanded flow sample of 116 octets: 44 of itself, 72 of a record with its header.
    0, 0, 0, 3,  0, 0, 0, 116,
    // Number 1 of interface 70 000; one packet of 512 of a pool of 512; no drops; from interface
    // 70 000 to 5; one record.
    0, 0, 0, 1,  0, 0, 0, 0,  0, 1, 0x11, 0x70,  0, 0, 2, 0,  0, 0, 2, 0,  0, 0, 0, 0,
    0, 0, 0, 0,  0, 1, 0x11, 0x70,  0, 0, 0, 0,  0, 0, 0, 5,  0, 0, 0, 1,
    // IPv6 without a link header, 100 octets, nothing stripped, 48 octets of header.
    0, 0, 0, 1,  0, 0, 0, 64,  0, 0, 0, 12,  0, 0, 0, 100,  0, 0, 0, 0,  0, 0, 0, 48,
    // 60 octets of payload.
    0x60, 0, 0, 0,  0, 60, 17, 64,
    0x20, 1, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
    0x20, 1, 0x0d, 0xb8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9,
    0, 53, 0, 53,  0, 60, 0, 0,
];

fn one(octets: &[u8]) -> Sample {
    let datagram = datagram(octets, 0).unwrap();
    assert_eq!((datagram.samples.len(), &datagram.unread[..]), (1, &[][..]));
    datagram.samples[0]
}

#[test]
fn ipv4_octet_by_octet() {
    let read = datagram(&IPV4, 5000).unwrap();
    let header = Header {
        version: Version::Sflow5,
        exported: 5000,
        uptime: Some(4096),
        sequence: 9,
        domain: 7,
    };
    assert_eq!((read.header, read.agent), (header, Some("192.0.2.1".parse().unwrap())));
    assert_eq!((read.packetless, &read.unread[..]), (1, &[][..]));
    let [sample] = &read.samples[..] else { panic!("{read:?}") };
    assert_eq!((sample.place, sample.sequence, sample.drops), (28, 21, 2));
    assert_eq!(sample.source, Source { class: 0, index: 3 });
    let flow = sample.flow.unwrap();
    // The octets are those of the IP packet: 1522 - 4 of the frame less 14 of Ethernet and 4 of
    // the tag.
    assert_eq!((flow.octets, flow.packets), (Some(1522 - 4 - 14 - 4), Some(1)));
    assert_eq!(flow.destination(), Some("10.1.0.9".parse().unwrap()));
    assert_eq!((flow.interface(), flow.is_leaving()), (Some(3), false));
    assert_eq!(flow.sampling.factor(), Some(1000.0));
    let span = flow.span(&read.header, None).unwrap();
    assert_eq!((span.start, span.end), (5000, 5000), "a packet is at one point in time");
}

#[test]
fn ipv6_octet_by_octet() {
    let read = datagram(&IPV6, 0).unwrap();
    assert_eq!(read.agent, Some("2001:db8::1".parse().unwrap()));
    let sample = one(&IPV6);
    assert_eq!(sample.source, Source { class: 0, index: 70_000 });
    let flow = sample.flow.unwrap();
    // 60 octets of payload behind a header of 40.
    assert_eq!((flow.octets, flow.interface()), (Some(60 + 40), Some(70_000)));
    assert_eq!(flow.destination(), Some("2001:db8:3::9".parse().unwrap()));
    assert_eq!(flow.sampling.factor(), Some(512.0));
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn item(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut item = words(&[kind, body.len() as u32]);
    item.extend(body);
    item.resize(item.len().next_multiple_of(4), 0);
    item
}

/// A datagram of one sample.
fn datagram_of(sample: &[u8]) -> Vec<u8> {
    [words(&[5, 1, 0xc000_0201, 0, 1, 0, 1]), sample.to_vec()].concat()
}

/// A flow sample of this source and these interfaces, with its records.
fn sample(source: u32, input: u32, output: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let fixed = words(&[1, source, 100, 100, 0, input, output, records.len() as u32]);
    item(1, &[fixed, records.concat()].concat())
}

/// The record of a packet's header.
fn header_of(protocol: u32, frame: u32, stripped: u32, header: &[u8]) -> Vec<u8> {
    let mut body = words(&[protocol, frame, stripped, header.len() as u32]);
    body.extend(header);
    item(1, &body)
}

/// The first octets of an IPv4 packet of 1000 octets to 10.0.0.1.
const PACKET: [u8; 20] = [0x45, 0, 3, 0xe8, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, 1];

fn with_header(protocol: u32, header: &[u8]) -> Option<Fields> {
    one(&datagram_of(&sample(3, 3, 4, &[header_of(protocol, 1018, 0, header)]))).flow
}

#[test]
fn packets_behind_headers_of_links() {
    let ethernet = |inside: &[u8]| [&[2; 12], inside, &PACKET].concat();
    let cases: [(&str, u32, Vec<u8>); 10] = [
        ("Ethernet", 1, ethernet(&[8, 0])),
        ("QinQ", 1, ethernet(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0])),
        ("two labels", 1, ethernet(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64])),
        ("PPPoE", 1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 9, 3, 0xea, 0, 0x21])),
        ("PPP", 7, [&[0, 0x21], &PACKET[..]].concat()),
        ("PPP with HDLC", 7, [&[0xff, 3, 0, 0x21], &PACKET[..]].concat()),
        ("POS", 14, [&[0xff, 3, 0, 0x21], &PACKET[..]].concat()),
        ("IPv4", 11, PACKET.to_vec()),
        ("a label", 13, [&[0, 1, 1, 64], &PACKET[..]].concat()),
        ("IPv4 whose options are cut off", 11, [&[0x4f], &PACKET[1..]].concat()),
    ];
    for (name, protocol, header) in cases {
        let flow = with_header(protocol, &header).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(flow.octets, Some(1000), "{name}");
        assert_eq!(flow.destination(), Some("10.0.0.1".parse().unwrap()), "{name}");
    }
    let none: [(&str, u32, Vec<u8>); 6] = [
        ("ARP", 1, [&[2; 12][..], &[8, 6], &[0; 28]].concat()),
        ("IEEE 802.11", 15, PACKET.to_vec()),
        ("another version of IP", 11, vec![0x55; 40]),
        ("cut off in the address", 11, PACKET[..19].to_vec()),
        ("cut off in the IPv6 address", 12, IPV6[116..116 + 39].to_vec()),
        ("nothing", 11, Vec::new()),
    ];
    for (name, protocol, header) in none {
        assert_eq!(with_header(protocol, &header), None, "{name}");
    }
}

#[test]
fn a_length_of_zero_is_that_of_the_frame() {
    let mut large = PACKET;
    large[2..4].fill(0);
    // 64 018 octets less 4 of the check sequence and 14 of Ethernet.
    let frame = [&[2; 12][..], &[8, 0], &large].concat();
    let octets = |record| one(&datagram_of(&sample(3, 3, 4, &[record]))).flow.unwrap().octets;
    assert_eq!(octets(header_of(1, 64_018, 4, &frame)), Some(64_000));
    assert_eq!(octets(header_of(1, 3, 4, &frame)), Some(0), "an impossible length");
    let mut jumbo = IPV6[116..164].to_vec();
    jumbo[4..6].fill(0);
    assert_eq!(octets(header_of(12, 70_000, 0, &jumbo)), Some(70_000));
}

#[test]
fn records_of_the_agent_stand_in_for_the_header() {
    // Length, protocol, addresses, ports, TCP flags and type of service.
    let four = item(3, &words(&[576, 6, 0xc000_0201, 0x0a01_0009, 80, 81, 0, 0]));
    let six = [words(&[1280, 6]), IPV6[124..156].to_vec(), words(&[80, 81, 0, 0])].concat();
    let six = item(4, &six);
    let flow = |records: &[Vec<u8>]| {
        let flow = one(&datagram_of(&sample(3, 3, 4, records))).flow.unwrap();
        (flow.octets.unwrap(), flow.destination().unwrap().to_string())
    };
    assert_eq!(flow(std::slice::from_ref(&four)), (576, "10.1.0.9".to_owned()));
    assert_eq!(flow(std::slice::from_ref(&six)), (1280, "2001:db8:3::9".to_owned()));
    // The packet itself counts before them, wherever it is, unless it is of an unknown link.
    let packet = header_of(11, 1000, 0, &PACKET);
    assert_eq!(flow(&[four.clone(), packet]), (1000, "10.0.0.1".to_owned()));
    assert_eq!(flow(&[header_of(15, 1000, 0, &PACKET), four]), (576, "10.1.0.9".to_owned()));
}

#[test]
fn unknown_records_and_samples_are_skipped() {
    let packet = header_of(11, 1000, 0, &PACKET);
    // A gateway, a record of an enterprise, and one of an odd length.
    let others = [item(1003, &[7; 44]), item(4413 << 12 | 1, &[1; 3]), item(99, &[])];
    let records = [&others[..], &[packet]].concat();
    assert!(one(&datagram_of(&sample(3, 3, 4, &records))).flow.is_some());
    let two = [words(&[5, 0, 0, 1, 0, 2]), item(8800 << 12 | 1, &[9; 7]), item(4, &[])].concat();
    let read = datagram(&two, 0).unwrap();
    assert_eq!((read.agent, read.packetless, read.samples.len()), (None, 2, 0));
    assert_eq!(read.unread, []);
}

#[test]
fn interfaces_and_directions() {
    let of = |source, input, output| {
        let records = [header_of(11, 1000, 0, &PACKET)];
        let flow = one(&datagram_of(&sample(source, input, output, &records))).flow.unwrap();
        (flow.interface(), flow.is_leaving())
    };
    assert_eq!(of(3, 3, 4), (Some(3), false));
    assert_eq!(of(4, 3, 4), (Some(3), true), "sampled on departure");
    assert_eq!(of(3, 3, 3), (Some(3), false), "sent back to where it came from");
    assert_eq!(of(2 << 24 | 4, 3, 4), (Some(3), false), "the source is no interface");
    assert_eq!(of(3, 3, 1 << 30 | 258), (Some(3), false), "discarded");
    assert_eq!(of(4, 0x3fff_ffff, 4), (None, true), "sent by the agent itself");
    assert_eq!(of(3, 3, 0x3fff_ffff), (Some(3), false), "sent to the agent itself");
    assert_eq!(of(3, 2 << 30 | 5, 4), (None, false), "a format that inputs do not have");
}

#[test]
fn what_cannot_be_read_costs_one_sample() {
    let good = sample(3, 3, 4, &[header_of(11, 1000, 0, &PACKET)]);
    let long = |record: Vec<u8>| sample(3, 3, 4, &[record]);
    let cases = [
        (item(1, &[0; 31]), SHORT),
        (item(3, &[0; 43]), SHORT),
        (long(words(&[1, 99])), RECORD),
        (long(item(1, &words(&[11, 100]))), SHORT),
        (long(item(1, &words(&[11, 100, 0, 21, 0, 0]))), HEADER),
        (long(item(3, &words(&[576, 6, 1]))), FIXED),
        (long(item(4, &[0; 39])), FIXED),
        (item(1, &words(&[1, 3, 100, 100, 0, 3, 4, u32::MAX])), RECORD),
    ];
    for (bad, expected) in cases {
        let samples = [good.clone(), bad, good.clone()];
        let all = [words(&[5, 1, 1, 0, 1, 0, 3]), samples.concat()].concat();
        let read = datagram(&all, 0).unwrap();
        assert_eq!(read.samples.len(), 2, "{expected}");
        assert_eq!(read.unread, [(28 + good.len(), expected)]);
    }
}

#[test]
fn what_is_cut_off_is_told() {
    for cut in 0..28 {
        assert_eq!(datagram(&IPV4[..cut], 0), Err(NoMessage::Short(cut)));
    }
    for cut in 28..IPV4.len() {
        let read = datagram(&IPV4[..cut], 0).unwrap();
        let (samples, place) = if cut < 172 { (0, 28) } else { (1, 172) };
        assert_eq!((read.samples.len(), read.unread.len()), (samples, 1), "{cut}");
        assert_eq!(read.unread[0].0, place, "{cut}");
    }
    for cut in 0..40 {
        assert_eq!(datagram(&IPV6[..cut], 0), Err(NoMessage::Short(cut)));
    }
    // Zeros behind the samples are padding, and other octets are not.
    let zeros = [&IPV4[..], &[0; 6]].concat();
    assert_eq!(datagram(&zeros, 0).unwrap().unread, []);
    let more = [&zeros[..], &[1]].concat();
    assert_eq!(datagram(&more, 0).unwrap().unread.len(), 1);
    assert_eq!(datagram(&words(&[4, 1]), 0), Err(NoMessage::Sflow(4)));
    assert_eq!(datagram(&words(&[5, 3]), 0), Err(NoMessage::Agent(3)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// Any octets are read or refused, and give no more than their length allows.
    #[test]
    fn any_octets_do_no_harm(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&octets)?;
        check(&[&IPV4[..24], &octets].concat())?;
        check(&datagram_of(&item(1, &octets)))?;
        check(&datagram_of(&item(3, &octets)))?;
        for protocol in 0..16 {
            let _ = packet::find(protocol, &octets, 1);
        }
    }

    #[test]
    fn changed_octets_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        six in any::<bool>(),
        length in any::<prop::sample::Index>(),
    ) {
        let mut octets = if six { IPV6.to_vec() } else { IPV4.to_vec() };
        for (at, value) in changes {
            let at = at.index(octets.len());
            octets[at] = value;
        }
        check(&octets)?;
        octets.truncate(length.index(octets.len()));
        check(&octets)?;
    }
}

fn check(octets: &[u8]) -> Result<(), TestCaseError> {
    let Ok(read) = datagram(octets, 0) else { return Ok(()) };
    prop_assert!(40 * read.samples.len() + 8 * read.packetless as usize <= octets.len());
    prop_assert!(read.samples.iter().all(|s| s.place < octets.len()));
    prop_assert!(read.unread.iter().all(|(at, _)| *at <= octets.len()));
    Ok(())
}
