mod gobgp;

use std::time::Duration;

use super::*;
use crate::bmp::Session;
use crate::table::{Limits, Table};

const NOW: Duration = Duration::from_secs(1000);

fn tlv_of(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

/// The descriptors of an OSPF router in area 0 of AS 64500 (RFC 9552, section 5.2.1.4): TLVs 512,
/// 514 and 515. Eight octets as the router are a broadcast network.
fn node(router: &[u8]) -> Vec<u8> {
    [tlv_of(512, &64500_u32.to_be_bytes()), tlv_of(514, &[0; 4]), tlv_of(515, router)].concat()
}

/// The NLRI of a node (section 5.2, figure 7): protocol 3 is OSPFv2, and the instance is 0.
fn node_route(router: &[u8]) -> Vec<u8> {
    tlv_of(1, &[&[3, 0, 0, 0, 0, 0, 0, 0, 0][..], &tlv_of(256, &node(router))].concat())
}

/// The NLRI of a link (figure 8), with its IPv4 interface address (TLV 259) as the descriptor.
fn link_route(from: &[u8], to: &[u8], interface: [u8; 4]) -> Vec<u8> {
    let ends = [tlv_of(256, &node(from)), tlv_of(257, &node(to))].concat();
    let all = [&[3, 0, 0, 0, 0, 0, 0, 0, 0][..], &ends, &tlv_of(259, &interface)].concat();
    tlv_of(2, &all)
}

fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[0x90, kind][..], &(value.len() as u16).to_be_bytes(), value].concat()
}

/// An UPDATE that announces routes with a BGP-LS attribute.
fn announce(routes: &[Vec<u8>], said: &[u8]) -> Vec<u8> {
    let head = [0x40, 4, 71, 4, 192, 0, 2, 1, 0];
    let reach = attribute(14, &[&head[..], &routes.concat()].concat());
    [&[0x40, 1, 1, 0, 0x40, 2, 0][..], &reach, &attribute(29, said)].concat()
}

fn withdraw(routes: &[Vec<u8>]) -> Vec<u8> {
    attribute(15, &[&[0x40, 4, 71][..], &routes.concat()].concat())
}

fn bgp(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[0xff; 16][..], &(body.len() as u16 + 19).to_be_bytes(), &[kind], body].concat()
}

/// A BMP message about the peer 192.0.2.1.
fn bmp(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut peer = vec![0; 10 + 12];
    peer.extend([192, 0, 2, 1, 0, 0, 0xfb, 0xf4, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let length = 6 + peer.len() + body.len();
    [&[3][..], &(length as u32).to_be_bytes(), &[kind], &peer, body].concat()
}

fn up() -> Vec<u8> {
    let open = bgp(1, &[4, 0xfb, 0xf4, 0, 90, 1, 1, 1, 1, 0]);
    bmp(3, &[&[0; 20][..], &open, &open].concat())
}

fn update(attributes: &[u8]) -> Vec<u8> {
    let length = (attributes.len() as u16).to_be_bytes();
    bmp(0, &bgp(2, &[&[0, 0][..], &length, attributes].concat()))
}

const ROME: [u8; 4] = [10, 0, 0, 1];
const OSLO: [u8; 4] = [10, 0, 0, 2];
const BONN: [u8; 4] = [10, 0, 0, 3];
/// The network of Bonn's interface 10.1.0.3, of which it is the designated router.
const LAN: [u8; 8] = [10, 0, 0, 3, 10, 1, 0, 3];

fn session(messages: &[Vec<u8>]) -> (Session, Table) {
    let (mut session, mut table) = (Session::new("r1", NOW), Table::new(Limits::default()));
    session.receive(NOW, &messages.concat(), &mut table).unwrap();
    (session, table)
}

fn names(table: &Table) -> Vec<String> {
    let routers = table.graph().routers();
    routers.into_values().map(|r| r.name.unwrap_or_default()).collect()
}

fn pairs(table: &Table) -> Vec<(u8, u8)> {
    let pairs = table.graph().adjacencies();
    pairs.iter().map(|(from, to)| (from[3], to[3])).collect()
}

#[test]
fn nodes_and_links_come_and_go() {
    let named = |name: &str, loopback: [u8; 4]| {
        [tlv_of(1026, name.as_bytes()), tlv_of(1028, &loopback)].concat()
    };
    // 1.25e9 octets per second are 10 Gbit/s; the float is 0x4e9502f9. The metric is 10.
    let link = [tlv_of(1089, &[0x4e, 0x95, 0x02, 0xf9]), tlv_of(1095, &[0, 10])].concat();
    let there = link_route(&ROME, &OSLO, [10, 9, 0, 1]);
    let back = link_route(&OSLO, &ROME, [10, 9, 0, 2]);
    let (mut session, mut table) = session(&[
        up(),
        update(&announce(&[node_route(&ROME)], &named("rome", [192, 0, 2, 11]))),
        update(&announce(&[node_route(&OSLO)], &named("oslo", [192, 0, 2, 12]))),
        update(&announce(&[there.clone(), back], &link)),
    ]);
    assert_eq!(session.counts().malformed, 0);
    assert_eq!((session.counts().announced, table.graph().len()), (4, 4));
    assert_eq!(names(&table), ["rome", "oslo"]);
    assert_eq!(pairs(&table), [(1, 2), (2, 1)]);
    let rome = &table.graph().routers()[&ROME[..]];
    let addresses: Vec<_> = rome.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.1", "192.0.2.11"]);
    let (object, said) =
        table.graph().iter().find(|(o, _)| matches!(o, Object::Link { .. })).unwrap();
    let Object::Link { from, to, .. } = object else { unreachable!() };
    assert_eq!((from.text().as_str(), to.text().as_str()), ("10.0.0.1", "10.0.0.2"));
    assert_eq!((said.metric, said.bandwidth), (Some(10), Some(1e10)));
    // A route that comes again replaces what was said.
    let again = update(&announce(std::slice::from_ref(&there), &tlv_of(1095, &[7])));
    session.receive(NOW, &again, &mut table).unwrap();
    assert!(table.graph().iter().any(|(_, s)| s.metric == Some(7)));
    session.receive(NOW, &update(&withdraw(&[there])), &mut table).unwrap();
    assert_eq!((pairs(&table), session.counts().withdrawn), (vec![(2, 1)], 1));
    assert!(!session.is_loaded());
    session.receive(NOW, &update(&withdraw(&[])), &mut table).unwrap();
    assert!(session.is_loaded(), "the end of the first routes of BGP-LS has come");
    session.cut(&mut table);
    assert_eq!(table.graph().len(), 3, "a cut session keeps what it reported");
    // The router comes again, and a node is gone meanwhile.
    session.receive(NOW, &up(), &mut table).unwrap();
    session.receive(NOW, &update(&withdraw(&[node_route(&OSLO)])), &mut table).unwrap();
    assert_eq!(names(&table), ["rome"]);
    session.close(&mut table);
    assert!(table.graph().is_empty());
}

#[test]
fn routers_of_a_broadcast_network_are_adjacent_to_each_other() {
    let mut routes = vec![node_route(&LAN)];
    for (last, router) in [ROME, OSLO, BONN].iter().enumerate() {
        let interface = [10, 1, 0, last as u8 + 1];
        routes.extend([node_route(router), link_route(router, &LAN, interface)]);
        routes.push(link_route(&LAN, router, interface));
    }
    let (_, table) = session(&[up(), update(&announce(&routes, &[]))]);
    assert_eq!(table.graph().routers().len(), 3);
    assert_eq!(pairs(&table), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]);
}

#[test]
fn what_cannot_be_read_is_counted_and_the_rest_stays() {
    let good = node_route(&ROME);
    let (mut session, mut table) =
        session(&[up(), update(&announce(std::slice::from_ref(&good), &[]))]);
    let mut without_router = good.clone();
    // The type of the TLV with the router, 515, becomes 516.
    let at = without_router.len() - 7;
    assert_eq!(without_router[at], 3);
    without_router[at] = 4;
    for wrong in [&good[..good.len() - 1], &without_router, &good[..3]] {
        session.receive(NOW, &update(&announce(&[wrong.to_vec()], &[])), &mut table).unwrap();
    }
    assert_eq!((session.counts().malformed, table.graph().len()), (3, 1));
    // Unknown kinds are skipped, also beside known ones, and an attribute whose TLVs do not fit.
    let prefix = tlv_of(3, &[1, 2, 3]);
    let routes = [prefix, node_route(&OSLO)];
    session.receive(NOW, &update(&announce(&routes, &[4, 2, 0, 9, 1])), &mut table).unwrap();
    assert_eq!((session.counts().malformed, table.graph().len()), (3, 2));
    assert_eq!(names(&table), ["", ""]);
}

#[test]
fn identifiers_of_isis_are_written_as_it_writes_them() {
    let node = |router: &[u8]| NodeId {
        protocol: 2,
        instance: 0,
        descriptors: [].into(),
        router: router.into(),
    };
    let router = node(&[0x19, 0x20, 0, 0, 0x20, 1]);
    assert_eq!((router.text().as_str(), router.is_network()), ("1920.0000.2001", false));
    assert!(node(&[0x19, 0x20, 0, 0, 0x20, 1, 3]).is_network());
}
