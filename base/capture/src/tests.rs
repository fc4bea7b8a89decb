//! Captures octet by octet, whole, cut and damaged.

use super::*;

/// The header of a capture with microseconds, little-endian, of Ethernet, and one packet.
#[rustfmt::skip]
const FILE: [u8; 24 + 16 + 14 + 20 + 8 + 4 + 2] = [
    0xd4, 0xc3, 0xb2, 0xa1,  2, 0, 4, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 4, 0,  1, 0, 0, 0,
    100, 0, 0, 0,  0xd0, 7, 0, 0,  48, 0, 0, 0,  48, 0, 0, 0,
    2, 0, 0, 0, 0, 1,  2, 0, 0, 0, 0, 2,  8, 0,
    0x45, 0, 0, 32,  0, 1, 0, 0,  64, 17, 0, 0,  192, 0, 2, 1,  192, 0, 2, 9,
    0x30, 0x39, 0x08, 0x07,  0, 12, 0, 0,  9, 9, 9, 9,
    // Ethernet's padding.
    0, 0,
];

fn all(file: &[u8]) -> Result<Vec<Datagram<'_>>, CaptureError> {
    let mut capture = Capture::new(file)?;
    let mut all = Vec::new();
    while let Some(datagram) = capture.next_datagram()? {
        all.push(datagram);
    }
    Ok(all)
}

#[test]
fn a_datagram_in_pcap_octet_by_octet() {
    assert!(is_capture(&FILE));
    let expected = Datagram {
        from: "192.0.2.1".parse().unwrap(),
        at: 100_002,
        place: 24 + 16 + 14 + 28,
        octets: &[9; 4],
    };
    assert_eq!(all(&FILE).unwrap(), [expected]);
    // The same without Ethernet, big-endian, in nanoseconds, twice.
    let mut raw =
        vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 101];
    for _ in 0..2 {
        raw.extend([0, 0, 0, 100, 0, 0x1e, 0x84, 0x80, 0, 0, 0, 32, 0, 0, 0, 32]);
        raw.extend(&FILE[54..86]);
    }
    let found = all(&raw).unwrap();
    assert_eq!((found.len(), found[0].at, found[1].place), (2, 100_002, 24 + 48 + 16 + 28));
}

#[test]
fn other_packets_are_skipped() {
    let with = |at: usize, octet: u8| {
        let mut file = FILE;
        file[at] = octet;
        file
    };
    assert!(all(&with(40 + 12, 9)).unwrap().is_empty(), "no IP");
    assert!(all(&with(54 + 9, 6)).unwrap().is_empty(), "TCP");
    let file = with(54 + 6, 0x20);
    let mut capture = Capture::new(&file).unwrap();
    assert_eq!((capture.next_datagram(), capture.left_out.fragments), (Ok(None), 1));
    assert!(all(&with(54 + 3, 27)).unwrap().is_empty(), "shorter than UDP's header");
}

/// A capture that is cut off has what was whole, and says where the rest begins.
fn is_cut(file: &[u8], datagrams: usize, at: usize) {
    let mut capture = Capture::new(file).unwrap();
    for _ in 0..datagrams {
        assert!(capture.next_datagram().unwrap().is_some());
    }
    assert_eq!((capture.next_datagram(), capture.cut), (Ok(None), Some(at)));
}

#[test]
fn a_packet_that_is_cut_off_is_left_out() {
    for cut in 25..FILE.len() {
        is_cut(&FILE[..cut], 0, 24);
    }
    // The packet before it is kept.
    let twice = [&FILE[..], &FILE[24..]].concat();
    for cut in FILE.len() + 1..twice.len() {
        is_cut(&twice[..cut], 1, FILE.len());
    }
    let mut whole = Capture::new(&FILE).unwrap();
    while whole.next_datagram().unwrap().is_some() {}
    assert_eq!(whole.cut, None);
}

#[test]
fn errors_name_the_place_and_the_cause() {
    let error = |file: &[u8]| all(file).unwrap_err();
    assert_eq!((error(&FILE[..20]).at, error(&[]).at), (0, 0));
    let mut other = FILE;
    other[20] = 127;
    assert!(error(&other).what.contains("link type 127"));
    let mut large = FILE;
    large[24 + 11] = 1;
    assert_eq!(error(&large).at, 24);
    assert_eq!(error(&PCAP_NG[..20]).what, INCOMPLETE);
}

/// A section, one interface of Ethernet with times in microseconds, and the packet of [`FILE`].
#[rustfmt::skip]
const PCAP_NG: [u8; 28 + 20 + 80] = [
    0x0a, 0x0d, 0x0d, 0x0a,  28, 0, 0, 0,  0x4d, 0x3c, 0x2b, 0x1a,  1, 0, 0, 0,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  28, 0, 0, 0,

    1, 0, 0, 0,  20, 0, 0, 0,  1, 0, 0, 0,  0, 0, 4, 0,  20, 0, 0, 0,

    // 100 002 000 microseconds.
    6, 0, 0, 0,  80, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0xd0, 0xe8, 0xf5, 0x05,
    48, 0, 0, 0,  48, 0, 0, 0,
    2, 0, 0, 0, 0, 1,  2, 0, 0, 0, 0, 2,  8, 0,
    0x45, 0, 0, 32,  0, 1, 0, 0,  64, 17, 0, 0,  192, 0, 2, 1,  192, 0, 2, 9,
    0x30, 0x39, 0x08, 0x07,  0, 12, 0, 0,  9, 9, 9, 9,
    0, 0,
    80, 0, 0, 0,
];

/// The same without Ethernet in a big-endian section, whose times are in `resolution` and `offset`.
fn big_endian(resolution: u8, offset: i64, time: u64) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_be_bytes();
        [&kind.to_be_bytes(), &length[..], body, &length].concat()
    };
    let section = [&[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0], &[0xff; 8][..]].concat();
    let tsresol = [0, 9, 0, 1, resolution, 0, 0, 0];
    let tsoffset = [&[0, 14, 0, 8][..], &offset.to_be_bytes()].concat();
    let interface = [&[0, 101, 0, 0, 0, 4, 0, 0], &tsresol[..], &tsoffset, &[0; 4]].concat();
    let lengths = [0, 0, 0, 32, 0, 0, 0, 32];
    let packet = [&[0; 4], &time.to_be_bytes()[..], &lengths, &FILE[54..86]].concat();
    [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat()
}

#[test]
fn a_datagram_in_pcapng_octet_by_octet() {
    assert!(is_capture(&PCAP_NG));
    let expected = Datagram {
        from: "192.0.2.1".parse().unwrap(),
        at: 100_002,
        place: 28 + 20 + 28 + 14 + 28,
        octets: &[9; 4],
    };
    assert_eq!(all(&PCAP_NG).unwrap(), [expected]);
    // A second section begins with interfaces and a byte order of its own.
    let two = [&PCAP_NG[..], &big_endian(9, 0, 7_000_000)].concat();
    let found = all(&two).unwrap();
    assert_eq!((found[0], found[1].at, found.len()), (expected, 7, 2));
    assert_eq!(found[1].octets, &two[found[1].place..][..4]);
}

#[test]
fn times_in_pcapng_have_a_resolution_and_an_offset() {
    let at = |file: &[u8]| all(file).unwrap()[0].at;
    assert_eq!(at(&big_endian(6, 0, 100_002_000)), 100_002);
    assert_eq!(at(&big_endian(0, 5, 7)), 12_000);
    // Powers of 2: 3 · 2^10 units of 2^-10 s, and the finest.
    assert_eq!(at(&big_endian(0x80 | 10, -1, 3 << 10)), 2_000);
    assert_eq!(at(&big_endian(0xff, 0, u64::MAX)), 0);
    assert_eq!(at(&big_endian(127, 0, u64::MAX)), 0);
    assert_eq!(at(&big_endian(0, i64::MAX, u64::MAX)), i64::MAX);
}

#[test]
fn a_block_that_is_cut_off_is_left_out() {
    for cut in 28 + 20 + 1..PCAP_NG.len() {
        is_cut(&PCAP_NG[..cut], 0, 28 + 20);
    }
    let twice = [&PCAP_NG[..], &PCAP_NG[28 + 20..]].concat();
    for cut in PCAP_NG.len() + 1..twice.len() {
        is_cut(&twice[..cut], 1, PCAP_NG.len());
    }
}

#[test]
fn blocks_that_cannot_be_used_are_errors() {
    let with = |at: usize, octet: u8| {
        let mut file = PCAP_NG;
        file[at] = octet;
        all(&file).map(|all| all.len()).map_err(|e| (e.at, e.what))
    };
    let error = |what: &str| Err((48, what.to_owned()));
    assert_eq!(with(48, 3), error(WITHOUT_TIME));
    assert_eq!(with(48, 2), error(OBSOLETE));
    assert_eq!(with(48, 99), Ok(0), "other blocks are skipped");
    assert_eq!(with(48 + 20, 60), error(DAMAGED), "the packet is longer than its block");
    assert_eq!(with(48 + 6, 200), error(TOO_LARGE));
    assert!(with(48 + 8, 1).unwrap_err().1.contains("interface"));
    assert!(with(28 + 8, 127).unwrap_err().1.contains("link type 127"));
}

/// The packet of [`FILE`] with this between its Ethernet addresses and its IP packet.
fn behind(headers: &[u8]) -> Vec<u8> {
    let length = (48 - 2 + headers.len() as u32).to_le_bytes();
    [&FILE[..32], &length, &length, &FILE[40..52], headers, &FILE[54..]].concat()
}

#[test]
fn datagrams_behind_tags_labels_and_tunnels() {
    let ip = [8, 0];
    let tag = |kind: [u8; 2]| [kind, [0, 7]].concat();
    let cases = [
        ("QinQ of 9100", [tag([0x91, 0]), tag([0x81, 0]), ip.to_vec()].concat()),
        ("three tags", [tag([0x88, 0xa8]), tag([0x81, 0]), tag([0x81, 0]), ip.to_vec()].concat()),
        ("two labels", vec![0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]),
        ("a tag and a label", [tag([0x81, 0]), vec![0x88, 0x47, 0, 1, 1, 64]].concat()),
        ("PPPoE", vec![0x88, 0x64, 0x11, 0, 0, 9, 0, 34, 0, 0x21]),
        ("GRE", [&ip[..], &outer(47, 4 + 32), &[0, 0, 8, 0]].concat()),
        ("GRE with a key", [&ip[..], &outer(47, 8 + 32), &[0x20, 0, 8, 0, 0, 0, 0, 5]].concat()),
        (
            "Ethernet in GRE",
            [&ip[..], &outer(47, 4 + 14 + 32), &[0, 0, 0x65, 0x58], &[2; 12], &ip].concat(),
        ),
        ("IP in IP", [&ip[..], &outer(4, 32)].concat()),
        ("GRE with MPLS", [&ip[..], &outer(47, 8 + 32), &[0, 0, 0x88, 0x47, 0, 1, 1, 64]].concat()),
        (
            "ERSPAN I",
            [&ip[..], &outer(47, 4 + 14 + 32), &[0, 0, 0x88, 0xbe], &[2; 12], &ip].concat(),
        ),
        (
            "ERSPAN II",
            [
                &ip[..],
                &outer(47, 8 + 8 + 14 + 32),
                &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0],
                &[2; 12],
                &ip,
            ]
            .concat(),
        ),
        (
            "ERSPAN III with eight octets more",
            [
                &ip[..],
                &outer(47, 8 + 20 + 14 + 32),
                &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1],
                &[0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                &[0; 8],
                &[2; 12],
                &ip,
            ]
            .concat(),
        ),
        ("VXLAN", udp(4789, &[8, 0, 0, 0, 0, 0, 7, 0], true)),
        ("VXLAN at Linux' port", udp(8472, &[8, 0, 0, 0, 0, 0, 7, 0], true)),
        ("VXLAN-GPE with IP", udp(4790, &[0x0c, 0, 0, 1, 0, 0, 7, 0], false)),
        ("Geneve", udp(6081, &[0, 0, 0x65, 0x58, 0, 0, 7, 0], true)),
        ("Geneve with an option", udp(6081, &[1, 0, 8, 0, 0, 0, 7, 0, 1, 2, 3, 0], false)),
        ("GTP-U", udp(2152, &[0x30, 255, 0, 32, 0, 0, 0, 5], false)),
        (
            "GTP-U with an extension",
            udp(2152, &[0x34, 255, 0, 40, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0, 9, 0], false),
        ),
        ("a backbone bridge", [&[0x88, 0xe7, 0, 0, 0, 7][..], &[2; 12], &ip].concat()),
        ("Ethernet in MPLS", [&[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 0][..], &[2; 12], &ip].concat()),
        ("SNAP", vec![0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
    ];
    for (name, headers) in cases {
        let file = behind(&headers);
        let found = all(&file).unwrap();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].from, "192.0.2.1".parse::<IpAddr>().unwrap(), "{name}");
        assert_eq!((found[0].octets, found[0].place), (&[9; 4][..], file.len() - 6), "{name}");
    }
    for (name, headers) in [
        ("PPPoE of a control protocol", vec![0x88, 0x64, 0x11, 0, 0, 9, 0, 34, 0xc0, 0x21]),
        ("labels without an end", [0x88, 0x47].iter().chain(&[0; 80]).copied().collect()),
        ("GRE of another version", [&ip[..], &outer(47, 36), &[0, 1, 8, 0]].concat()),
        ("tags without an end", tag([0x81, 0]).repeat(17).to_vec()),
    ] {
        assert_eq!(all(&behind(&headers)).unwrap(), [], "{name}");
    }
}

/// A datagram to a port with this header of a tunnel, and maybe Ethernet's behind it.
fn udp(port: u16, header: &[u8], ethernet: bool) -> Vec<u8> {
    let ethernet = if ethernet { [&[2; 12][..], &[8, 0]].concat() } else { Vec::new() };
    let length = (8 + header.len() + ethernet.len() + 32) as u8;
    let [high, low] = port.to_be_bytes();
    let ports = [0xc0, 0, high, low, 0, length, 0, 0];
    [&[8, 0][..], &outer(17, length), &ports, header, &ethernet].concat()
}

#[test]
fn what_only_looks_like_a_tunnel_is_a_datagram() {
    for header in [[0; 8], [8, 0, 0, 0, 0, 0, 7, 1]] {
        let file = behind(&udp(4789, &header, true));
        let found = all(&file).unwrap();
        assert_eq!((found.len(), found[0].from.to_string()), (1, "198.51.100.1".to_owned()));
    }
    // A tunnel with something else than IP, such as ARP.
    let mut file = behind(&udp(4789, &[8, 0, 0, 0, 0, 0, 7, 0], true));
    let inner = file.len() - 36;
    file[inner..inner + 2].copy_from_slice(&[8, 6]);
    let mut capture = Capture::new(&file).unwrap();
    assert_eq!((capture.next_datagram(), capture.left_out.not_ip), (Ok(None), 1));
}

/// The packet of [`FILE`] behind the header of another link.
fn on_link(number: u8, header: &[u8]) -> Vec<u8> {
    let length = (34 + header.len() as u32).to_le_bytes();
    let mut file = [&FILE[..32], &length, &length, header, &FILE[54..]].concat();
    file[20] = number;
    file
}

#[test]
fn links_of_all_kinds() {
    let cooked = |kind: [u8; 2]| [&[0; 14][..], &kind].concat();
    let cooked2 = |kind: [u8; 2]| [&kind[..], &[0; 18]].concat();
    let cases = [
        ("loopback of BSD", 0, vec![2, 0, 0, 0]),
        ("loopback of OpenBSD", 108, vec![0, 0, 0, 2]),
        ("PPP", 9, vec![0, 0x21]),
        ("PPP in HDLC", 9, vec![0xff, 3, 0, 0x21]),
        ("serial PPP", 50, vec![0xff, 3, 0, 0x21]),
        ("Cisco's HDLC", 104, vec![0x0f, 0, 8, 0]),
        ("PPPoE", 51, vec![0x11, 0, 0, 9, 0, 34, 0, 0x21]),
        ("PPP with a direction", 204, vec![1, 0xff, 3, 0, 0x21]),
        ("raw", 101, vec![]),
        ("Linux' own", 113, cooked([8, 0])),
        ("Linux' own with a tag", 113, [cooked([0x81, 0]), vec![0, 7, 8, 0]].concat()),
        ("Linux' own of labels", 113, [cooked([0x88, 0x47]), vec![0, 1, 1, 64]].concat()),
        ("NFLOG", 239, vec![2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 1, 0, 36, 0, 9, 0]),
        ("NFLOG, big-endian", 239, vec![2, 0, 0, 0, 0, 6, 0, 10, 110, 0, 0, 0, 0, 36, 0, 9]),
    ];
    for (name, number, header) in cases {
        let file = on_link(number, &header);
        let found = all(&file).unwrap();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].octets, [9; 4], "{name}");
    }
    for (name, header) in [
        ("its second version", cooked2([8, 0])),
        ("its second version with a tag", [cooked2([0x81, 0]), vec![0, 7, 8, 0]].concat()),
    ] {
        let mut file = on_link(0x14, &header);
        file[21] = 1;
        assert_eq!(all(&file).unwrap().len(), 1, "{name}");
    }
    for (number, name) in [(105, "Wi-Fi in monitor mode"), (201, "Bluetooth"), (147, "not supp")] {
        let error = all(&on_link(number, &[])).unwrap_err().to_string();
        let expected = format!("at octet 20: the link type {number} is {name}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn files_that_are_no_captures_are_named() {
    let error = |file: &[u8]| Capture::new(file).unwrap_err().to_string();
    let give = "give a file in pcap or pcapng, as of `tcpdump -w`";
    for (file, expected) in [
        (
            &b"snoop\0\0\0\0\0\0\x02"[..],
            "is a capture of snoop: convert it with `editcap -F pcapng IN OUT`".to_owned(),
        ),
        (b"12:00:00.000000 IP 192.0.2.1", format!("is text and no capture: {give}")),
        (b"\x01\x02\x03", format!("is not a capture: {give}")),
        (&FILE[..20], "the header of the capture is incomplete".to_owned()),
    ] {
        assert_eq!(error(file), expected);
    }
}

#[test]
fn packets_that_are_left_out_are_counted() {
    let mut short = FILE.to_vec();
    // The capture has 40 octets of the packet, so that its IP header is cut.
    short[32] = 30;
    short.truncate(24 + 16 + 30);
    let mut capture = Capture::new(&short).unwrap();
    assert_eq!(capture.next_ip(), Ok(None));
    assert_eq!(capture.left_out, LeftOut { short: 1, ..LeftOut::default() });
    let mut arp = FILE;
    arp[24 + 16 + 13] = 6;
    let mut capture = Capture::new(&arp).unwrap();
    assert_eq!(capture.next_ip(), Ok(None));
    assert_eq!(capture.left_out, LeftOut { not_ip: 1, ..LeftOut::default() });
}

/// Packets before segmentation offload have the length 0 in their headers.
#[test]
fn large_packets_have_their_length_from_the_capture() {
    let tcp = |next: u8, extension: &[u8]| {
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        ip.extend([0x20; 32]);
        ip.extend(extension);
        ip.extend([0x9c, 0x40, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        ip
    };
    let wire: u32 = 70_000;
    let cases = [
        ("without a header of its length", tcp(6, &[]), 40),
        ("behind a destination header", tcp(60, &[6, 0, 1, 4, 0, 0, 0, 0]), 48),
        ("behind a hop-by-hop header without the length", tcp(0, &[6, 0, 1, 4, 0, 0, 0, 0]), 48),
    ];
    for (name, ip, offset) in cases {
        let captured = (14 + ip.len() as u32).to_le_bytes();
        let mut file =
            [&FILE[..32], &captured, &(14 + wire).to_le_bytes(), &FILE[40..52], &[0x86, 0xdd]]
                .concat();
        file.extend(ip);
        let mut capture = Capture::new(&file).unwrap();
        let packet = capture.next_ip().unwrap().unwrap();
        let ports = packet.headers.ports.map(|p| (p.source, p.destination));
        assert_eq!(ports, Some((40_000, 443)), "{name}");
        assert_eq!(packet.headers.transport_len, wire - offset, "{name}");
    }
}

/// An IPv4 header of a tunnel, with this protocol and length of its contents.
fn outer(protocol: u8, length: u8) -> [u8; 20] {
    [0x45, 0, 0, 20 + length, 0, 1, 0, 0, 64, protocol, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]
}
