//! Dumps by hand, octet by octet.

use super::*;
use crate::table::Limits;

fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
    record_of(13, subtype, body)
}

fn record_of(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0, 0, 9];
    record.extend(kind.to_be_bytes());
    record.extend(subtype.to_be_bytes());
    record.extend((body.len() as u32).to_be_bytes());
    record.extend(body);
    record
}

/// Two peers: 192.0.2.1 in AS 64500, and 2001:db8::1 in AS 4200000001.
fn peers() -> Vec<u8> {
    let mut body = vec![198, 51, 100, 1, 0, 2, b'v', b'1', 0, 2];
    body.extend([0, 1, 1, 1, 1, 192, 0, 2, 1, 0xfb, 0xf4]);
    body.extend([3, 1, 1, 1, 2]);
    body.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    body.extend(4_200_000_001u32.to_be_bytes());
    record(1, &body)
}

/// AS path 64500 64510, next hop 192.0.2.1, community 64500:120.
const ATTRIBUTES: [u8; 32] = [
    0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0, 0, 0xfb, 0xfe, 0x40, 3, 4, 192, 0, 2, 1,
    0xc0, 8, 4, 0xfb, 0xf4, 0, 120, 0,
];

fn attributes() -> &'static [u8] {
    &ATTRIBUTES[..31]
}

#[test]
fn a_dump_by_hand_is_read() {
    let mut dump = peers();
    // 203.0.113.0/24 from peer 0.
    let mut body = vec![0, 0, 0, 0, 24, 203, 0, 113, 0, 1, 0, 0, 0, 0, 0, 5, 0, 31];
    body.extend(attributes());
    dump.extend(record(2, &body));
    // 203.0.0.0/16 twice from peer 0, with path identifiers 7 and 8.
    let mut body = vec![0, 0, 0, 1, 16, 203, 0, 0, 2];
    for id in [7, 8] {
        body.extend([0, 0, 0, 0, 0, 5, 0, 0, 0, id, 0, 31]);
        body.extend(attributes());
    }
    dump.extend(record(8, &body));
    // 2001:db8:1::/48 from peer 1, with an abbreviated MP_REACH_NLRI.
    let mut body = vec![0, 0, 0, 2, 48, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 1, 0, 1, 0, 0, 0, 5, 0, 29];
    body.extend([0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xfe, 0x80, 14, 17, 16]);
    body.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    dump.extend(record(4, &body));
    let mut table = Table::new(Limits::default());
    let summary = load(&dump[..], "r1", &mut table).unwrap();
    let expected = Summary { records: 4, routes: 4, ..Summary::default() };
    assert_eq!(summary, expected);
    assert_eq!((table.routes(), table.distinct()), (4, 2));

    let (net, routes) = table.longest("203.0.113.9".parse().unwrap()).unwrap();
    assert_eq!(net.to_string(), "203.0.113.0/24");
    let got = &routes[0].attributes;
    assert_eq!((&*got.path, got.origin()), (&[64500, 64510][..], Some(64510)));
    assert_eq!(got.next_hop, Some("192.0.2.1".parse().unwrap()));
    assert_eq!(&*got.communities, [64500 << 16 | 120]);
    let (net, routes) = table.longest("203.0.9.9".parse().unwrap()).unwrap();
    assert_eq!(net.to_string(), "203.0.0.0/16");
    assert_eq!(routes.iter().map(|r| r.path_id).collect::<Vec<_>>(), [7, 8]);
    let (_, routes) = table.longest("2001:db8:1::5".parse().unwrap()).unwrap();
    assert_eq!(routes[0].attributes.next_hop, Some("2001:db8::9".parse().unwrap()));
    assert_eq!(table.peer(routes[0].peer).unwrap().asn, 4_200_000_001);
    let own: Vec<_> = table.originated_by(64510).map(|net| net.to_string()).collect();
    assert_eq!(own, ["203.0.0.0/16", "203.0.113.0/24", "2001:db8:1::/48"]);
}

#[test]
fn a_bad_record_costs_no_other_and_a_cut_one_is_told() {
    let mut dump = peers();
    // A prefix of 33 bits.
    dump.extend(record(2, &[0, 0, 0, 0, 33, 1, 2, 3, 4, 5, 0, 0]));
    let mut body = vec![0, 0, 0, 0, 8, 10, 0, 1, 0, 0, 0, 0, 0, 5, 0, 31];
    body.extend(attributes());
    dump.extend(record(2, &body));
    dump.extend(&record(2, &body)[..20]);
    let mut table = Table::new(Limits::default());
    let summary = load(&dump[..], "r1", &mut table).unwrap();
    assert_eq!((summary.routes, summary.malformed, summary.cut), (1, 1, true));
}

/// Reads a dump: what it has of its records, or why not, and its routes with their next hops.
fn read(dump: &[u8]) -> (Result<Summary, String>, Vec<String>) {
    let mut table = Table::new(Limits::default());
    let summary = load(dump, "r1", &mut table).map_err(|e| e.to_string());
    let text = |(net, routes): (ipnet::IpNet, &[crate::table::Route])| {
        let hops: Vec<String> = routes
            .iter()
            .map(|r| r.attributes.next_hop.map_or("-".to_owned(), |hop| hop.to_string()))
            .collect();
        format!("{net} {}", hops.join(" "))
    };
    let routes = table.iter().map(text).collect();
    (summary, routes)
}

/// A record of IPv4 unicast routes with one entry of peer 0.
fn entry(prefix: &[u8], attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0];
    body.extend(prefix);
    body.extend([0, 1, 0, 0, 0, 0, 0, 5]);
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body
}

/// The next hop 2001:db8::9.
const HOP: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
/// The network 2001:db8:1::/48.
const NET: [u8; 7] = [48, 0x20, 1, 0xd, 0xb8, 0, 1];

/// MP_REACH_NLRI as RFC 6396 has it, and whole with the prefix or without.
#[test]
fn a_whole_attribute_of_reachability_is_read_as_the_abbreviated_one() {
    let abbreviated = [&[0x80, 14, 17, 16][..], &HOP].concat();
    let two = [&[0x80, 14, 33, 32][..], &HOP, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0], &[1; 8]].concat();
    let empty = [&[0x80, 14, 21, 0, 2, 1, 16][..], &HOP, &[0]].concat();
    let whole = [&[0x80, 14, 28, 0, 2, 1, 16][..], &HOP, &[0], &NET].concat();
    // Another prefix in the attribute is not believed: that of the record counts.
    let other = [&[0x80, 14, 23, 0, 2, 1, 16][..], &HOP, &[0, 8, 0x20]].concat();
    for attributes in [abbreviated, two, empty, whole, other] {
        let dump = [peers(), record(4, &entry(&NET, &attributes))].concat();
        let (summary, routes) = read(&dump);
        assert_eq!(summary.unwrap().routes, 1);
        assert_eq!(routes, ["2001:db8:1::/48 2001:db8::9"]);
    }
    // An IPv4 prefix by an IPv6 next hop (RFC 8950), also beside NEXT_HOP.
    let by_v6 = [&[0x80, 14, 21, 0, 1, 1, 16][..], &HOP, &[0]].concat();
    let both = [&by_v6[..], &[0x40, 3, 4, 0, 0, 0, 0]].concat();
    for attributes in [by_v6, both] {
        let dump = [peers(), record(2, &entry(&[24, 203, 0, 113], &attributes))].concat();
        assert_eq!(read(&dump).1, ["203.0.113.0/24 2001:db8::9"]);
    }
}

/// A record of the first version: view 0, 203.0.113.0/24, peer 192.0.2.`last` in AS 64500.
fn of_first_version(view: u8, last: u8, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0, view, 0, 1, 203, 0, 113, 0, 24, 1, 0, 0, 0, 5, 192, 0, 2, last];
    body.extend([0xfb, 0xf4]);
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    record_of(12, 1, &body)
}

#[test]
fn a_dump_of_the_first_version_is_read() {
    // Two octets an AS: 64500 and AS_TRANS, which AS4_PATH replaces by 4200000001.
    let short = [
        0x40, 1, 1, 0, 0x40, 2, 6, 2, 2, 0xfb, 0xf4, 0x5b, 0xa0, 0x40, 3, 4, 198, 51, 100, 1, 0xc0,
        17, 6, 2, 1, 0xfa, 0x56, 0xea, 1,
    ];
    let v6 = {
        let mut body = vec![0, 0, 0, 2];
        body.extend([&NET[1..], &[0; 10], &[48, 1, 0, 0, 0, 5], &HOP, &[0xfb, 0xf4]].concat());
        let whole = [&[0x80, 14, 28, 0, 2, 1, 16][..], &HOP, &[0], &NET].concat();
        body.extend([&(whole.len() as u16).to_be_bytes()[..], &whole].concat());
        record_of(12, 2, &body)
    };
    let dump = [
        of_first_version(0, 1, &short),
        of_first_version(0, 2, &short),
        of_first_version(0, 1, &short),
        of_first_version(1, 1, &short),
        v6,
    ]
    .concat();
    let mut table = Table::new(Limits::default());
    let summary = load(&dump[..], "r1", &mut table).unwrap();
    assert_eq!((summary.records, summary.routes, summary.malformed), (5, 5, 0));
    let routes = table.exactly("203.0.113.0/24".parse().unwrap());
    assert_eq!(routes.len(), 3, "one of each peer, and one of the other view");
    assert_eq!(&*routes[0].attributes.path, [64500, 4_200_000_001]);
    assert_eq!(routes[0].attributes.next_hop, Some("198.51.100.1".parse().unwrap()));
    let peer = table.peer(routes[1].peer).unwrap();
    assert_eq!((peer.address, peer.asn), ("192.0.2.2".parse().unwrap(), 64500));
    assert_eq!(table.exactly("2001:db8:1::/48".parse().unwrap()).len(), 1);
    // With four octets an AS, as of mrtd.
    let mut body = vec![0, 0, 0, 1, 203, 0, 113, 0, 24, 1, 0, 0, 0, 5, 192, 0, 2, 1];
    body.extend([0, 0, 0xfb, 0xf4, 0, 31]);
    body.extend(attributes());
    assert_eq!(read(&record_of(12, 3, &body)).1, ["203.0.113.0/24 192.0.2.1"]);
}

#[test]
fn records_that_name_their_family_are_read_if_it_is_unicast() {
    let generic = |subtype: u16, safi: u8, id: &[u8]| {
        let mut body = vec![0, 0, 0, 7, 0, 1, safi, 24, 203, 0, 113, 0, 1, 0, 0, 0, 0, 0, 5];
        body.extend(id);
        body.extend([0, 31]);
        body.extend(attributes());
        record(subtype, &body)
    };
    let dump = [peers(), generic(6, 1, &[]), generic(6, 128, &[])].concat();
    let (summary, routes) = read(&dump);
    assert_eq!(routes, ["203.0.113.0/24 192.0.2.1"]);
    let skipped = summary.unwrap().describe_skipped();
    assert_eq!(skipped.as_deref(), Some("1 RIB_GENERIC (AFI 1, SAFI 128)"));
    let dump = [peers(), generic(12, 1, &[0, 0, 0, 3]), generic(12, 1, &[0, 0, 0, 4])].concat();
    assert_eq!(read(&dump).1, ["203.0.113.0/24 192.0.2.1 192.0.2.1"]);
}

/// A file that gives nothing is an error that names what it has.
#[test]
fn a_file_without_routes_is_an_error() {
    let message = |kind, subtype| record_of(kind, subtype, &[0; 30]);
    let give = "give a table dump, such as rib.* of RouteViews or bview.* of RIPE";
    let cases: [(Vec<u8>, String); 12] = [
        (
            record(2, &entry(&[24, 203, 0, 113], attributes())),
            "has no routes, since its 1 records cannot be read: record 1 names peer 0, which no \
             table of peers before it has: is the file's start missing?"
                .to_owned(),
        ),
        (
            [message(16, 4), message(16, 4), message(17, 0)].concat(),
            format!(
                "has no routes in 3 records: 2 BGP4MP_MESSAGE_AS4, 1 BGP4MP_STATE_CHANGE; these \
                 are messages of BGP, and no table: {give}"
            ),
        ),
        (
            [peers(), record(3, &[0; 9]), record(7, &[])].concat(),
            format!("has no routes in 3 records: 1 RIB_IPV4_MULTICAST, 1 GEO_PEER_TABLE: {give}"),
        ),
        (peers(), format!("has no routes: {give}")),
        (
            [peers(), message(99, 1)].concat(),
            format!("has no routes in 2 records: 1 of the unknown type 99: {give}"),
        ),
        (
            message(99, 1).repeat(12),
            format!("has no routes in 12 records: 12 of the unknown type 99: {give}"),
        ),
        (
            [message(11, 0), message(32, 0), message(49, 0), message(1, 0), message(12, 9)]
                .concat(),
            format!(
                "has no routes in 5 records: 1 START, 1 OSPFv2, 1 TABLE_DUMP of the unknown \
                 subtype 9, 1 ISIS, others: {give}"
            ),
        ),
        (
            record(2, &[1, 2, 3]),
            "has no routes, since its 1 records cannot be read: record 1 ends within a field"
                .to_owned(),
        ),
        (
            [peers(), record(2, &[0; 40])[..30].to_vec()].concat(),
            format!("has no routes; it ends within a record: {give}"),
        ),
        (
            b"<html>this is no dump</html>".to_vec(),
            format!("is a web page and no MRT file: {give}"),
        ),
        (
            b"TABLE_DUMP2|1700000000|B|192.0.2.1|64500|203.0.113.0/24|64500|IGP\n".to_vec(),
            format!("is text, maybe of `bgpdump` or `show ip bgp`: {give}"),
        ),
        (b"\x01\x02\x03".to_vec(), format!("is no MRT file: {give}")),
    ];
    for (dump, expected) in cases {
        assert_eq!(read(&dump).0.unwrap_err(), expected);
    }
    let capture = [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 16]].concat();
    let error = read(&capture).0.unwrap_err();
    assert_eq!(error, format!("is a packet capture and no MRT file: {give}"));
    let long = [peers(), vec![0, 0, 0, 1, 0, 13, 0, 2, 0xff, 0, 0, 0]].concat();
    assert!(read(&long).0.unwrap_err().starts_with("record 2 has more than 4 MB"));
}

#[test]
fn a_peer_of_two_tables_in_a_file_is_one() {
    let routes = record(2, &entry(&[24, 203, 0, 113], attributes()));
    let dump = [peers(), routes.clone(), peers(), routes].concat();
    let mut table = Table::new(Limits::default());
    load(&dump[..], "r1", &mut table).unwrap();
    assert_eq!((table.routes(), table.peers().count()), (1, 2));
}
