use proptest::prelude::*;

use super::*;
use crate::table::Limits;

const NOW: Duration = Duration::from_secs(1000);

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![3];
    message.extend((body.len() as u32 + 6).to_be_bytes());
    message.push(kind);
    message.extend(body);
    message
}

/// The header of peer 192.0.2.`last` in AS 64500.
fn peer(flags: u8, last: u8) -> Vec<u8> {
    let mut header = vec![0, flags];
    header.extend([0; 8 + 12]);
    header.extend([192, 0, 2, last]);
    header.extend(64500u32.to_be_bytes());
    header.extend([1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    header
}

fn bgp_message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    message.extend((body.len() as u16 + 19).to_be_bytes());
    message.push(kind);
    message.extend(body);
    message
}

fn open_message(add_path: Option<u8>) -> Vec<u8> {
    let mut body = vec![4, 0xfb, 0xf4, 0, 90, 1, 1, 1, 1];
    match add_path {
        Some(mode) => body.extend([8, 2, 6, 69, 4, 0, 1, 1, mode]),
        None => body.push(0),
    }
    bgp_message(1, &body)
}

fn up(last: u8, sent: Option<u8>, received: Option<u8>) -> Vec<u8> {
    let mut body = peer(0, last);
    body.extend([0; 20]);
    body.extend(open_message(sent));
    body.extend(open_message(received));
    message(3, &body)
}

/// ORIGIN, AS path 64500 64510 and next hop 192.0.2.1.
const ATTRIBUTES: [u8; 24] = [
    0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfb, 0xf4, 0, 0, 0xfb, 0xfe, 0x40, 3, 4, 192, 0, 2, 1,
];

fn update(flags: u8, last: u8, withdrawn: &[u8], attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let mut body = (withdrawn.len() as u16).to_be_bytes().to_vec();
    body.extend(withdrawn);
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body.extend(announced);
    message(0, &[peer(flags, last), bgp_message(2, &body)].concat())
}

fn prefixes_of(table: &Table) -> Vec<String> {
    table.iter().map(|(net, routes)| format!("{net} {}", routes.len())).collect()
}

#[test]
fn routes_come_change_and_go() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let two = [24, 203, 0, 113, 16, 198, 51];
    let octets = [up(1, None, None), update(0, 1, &[], &ATTRIBUTES, &two)].concat();
    // A stream comes in pieces.
    for octet in octets {
        session.receive(NOW, &[octet], &mut table).unwrap();
    }
    assert_eq!(prefixes_of(&table), ["198.51.0.0/16 1", "203.0.113.0/24 1"]);
    let (_, routes) = table.longest("203.0.113.1".parse().unwrap()).unwrap();
    assert_eq!(&*routes[0].attributes.path, [64500, 64510]);
    assert_eq!(table.peer(routes[0].peer).unwrap().address.to_string(), "192.0.2.1");
    // The path changes: one route stays one route.
    let other = [0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4, 0x40, 3, 4, 192, 0, 2, 7];
    session.receive(NOW, &update(0, 1, &[], &other, &[24, 203, 0, 113]), &mut table).unwrap();
    assert_eq!((table.routes(), table.distinct()), (2, 2));
    session.receive(NOW, &update(0, 1, &[16, 198, 51], &[], &[]), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["203.0.113.0/24 1"]);
    assert_eq!(table.distinct(), 1);
    assert_eq!((session.counts().announced, session.counts().withdrawn), (3, 1));
    session.receive(NOW, &message(2, &[peer(0, 1), vec![1]].concat()), &mut table).unwrap();
    assert_eq!((table.routes(), table.distinct(), session.peers()), (0, 0, 0));
}

#[test]
fn path_identifiers_need_both_ends() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let with = [0, 0, 0, 7, 8, 10, 0, 0, 0, 9, 8, 10];
    let octets = [
        up(1, Some(1), Some(2)),
        update(0, 1, &[], &ATTRIBUTES, &with),
        // This router cannot receive identifiers.
        up(2, Some(2), Some(2)),
        update(0, 2, &[], &ATTRIBUTES, &[8, 11]),
    ];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 2", "11.0.0.0/8 1"]);
    session.receive(NOW, &update(0, 1, &[0, 0, 0, 7, 8, 10], &[], &[]), &mut table).unwrap();
    assert_eq!(table.exactly("10.0.0.0/8".parse().unwrap())[0].path_id, 9);
}

#[test]
fn routes_after_policy_replace_those_before_and_outgoing_ones_are_left_out() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let octets = [
        up(1, None, None),
        update(0, 1, &[], &ATTRIBUTES, &[8, 10, 8, 11]),
        update(0x10, 1, &[], &ATTRIBUTES, &[8, 12]),
    ];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 1", "11.0.0.0/8 1"]);
    // The policy has refused 11/8.
    let octets = [
        update(0x40, 1, &[], &ATTRIBUTES, &[8, 10]),
        update(0, 1, &[], &ATTRIBUTES, &[8, 11]),
        update(0x40, 1, &[], &[], &[]),
    ];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 1"]);
    assert_eq!((session.counts().outgoing, session.counts().superseded), (1, 1));
    assert!(session.is_loaded(), "the routes after policy have ended");
    // The same in the next connection.
    session.cut(&mut table);
    let again = [up(1, None, None), update(0x40, 1, &[], &ATTRIBUTES, &[8, 10])];
    session.receive(NOW, &again.concat(), &mut table).unwrap();
    session.expire(&mut table);
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 1"]);
    session.receive(NOW, &message(2, &[peer(0, 1), vec![1]].concat()), &mut table).unwrap();
    assert_eq!((table.routes(), table.peers().count()), (0, 0));
}

/// The same message about a peer of this type and distinguisher.
fn of_instance(mut octets: Vec<u8>, kind: u8, distinguisher: u8) -> Vec<u8> {
    octets[HEADER] = kind;
    octets[HEADER + 2 + 7] = distinguisher;
    octets
}

#[test]
fn routes_of_vrfs_are_no_routes_of_the_network() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    // A local preference of 900, and another next hop.
    let better = [&ATTRIBUTES[..23], &[7, 0x40, 5, 4, 0, 0, 3, 132]].concat();
    let mut octets = vec![up(1, None, None), update(0, 1, &[], &ATTRIBUTES, &[8, 10])];
    for (kind, distinguisher) in [(1, 7), (2, 7), (3, 7), (4, 0)] {
        octets.push(of_instance(up(1, None, None), kind, distinguisher));
        octets.push(of_instance(update(0, 1, &[], &better, &[8, 10]), kind, distinguisher));
        let down = message(2, &[peer(0, 1), vec![1]].concat());
        octets.push(of_instance(down, kind, distinguisher));
    }
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 1"]);
    let hop = table.exactly("10.0.0.0/8".parse().unwrap())[0].attributes.next_hop;
    assert_eq!(hop, Some("192.0.2.1".parse().unwrap()));
    assert_eq!((session.counts().instances, session.counts().unknown), (9, 3));
    assert_eq!(session.peers(), 1);
    // The router's own table is of the network.
    let own = [up(1, None, None), update(0, 1, &[], &better, &[8, 10])];
    let own = own.map(|octets| of_instance(octets, 3, 0)).concat();
    session.receive(NOW, &own, &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 2"]);
}

#[test]
fn peers_of_both_families_with_the_same_octets_are_two() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let of_v6 = |mut octets: Vec<u8>| {
        octets[HEADER + 1] |= 0x80;
        octets
    };
    let octets = [up(1, None, None), update(0, 1, &[], &ATTRIBUTES, &[8, 10])];
    let both = [octets.concat(), octets.map(of_v6).concat()].concat();
    session.receive(NOW, &both, &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 2"]);
}

/// An UPDATE may have IPv4 prefixes by NEXT_HOP and others by MP_REACH_NLRI.
#[test]
fn each_prefix_of_a_message_has_its_own_next_hop() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let reach = [0x80, 14, 23, 0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let attributes = [&ATTRIBUTES[..], &reach, &[0, 8, 0x20]].concat();
    let vpn = [0x80, 14, 5, 0, 1, 128, 0, 0];
    let octets =
        [up(1, None, None), update(0, 1, &[], &attributes, &[8, 10]), update(0, 1, &[], &vpn, &[])];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    let hop = |prefix: &str| table.exactly(prefix.parse().unwrap())[0].attributes.next_hop;
    assert_eq!(hop("10.0.0.0/8"), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(hop("2000::/8"), Some("2001:db8::9".parse().unwrap()));
    assert_eq!((session.counts().families, session.counts().malformed), (1, 0));
}

#[test]
fn two_octet_paths_are_completed() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    // 64500 AS_TRANS in AS_PATH, 4200000001 in AS4_PATH.
    let attributes =
        [0x40, 2, 6, 2, 2, 0xfb, 0xf4, 0x5b, 0xa0, 0xc0, 17, 6, 2, 1, 0xfa, 0x56, 0xea, 0x01];
    let octets = [up(1, None, None), update(0x20, 1, &[], &attributes, &[8, 10])];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    let route = &table.exactly("10.0.0.0/8".parse().unwrap())[0];
    assert_eq!(&*route.attributes.path, [64500, 0xfa56_ea01]);
}

#[test]
fn a_wrong_attribute_withdraws_and_an_unknown_peer_changes_nothing() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    session.receive(NOW, &update(0, 1, &[], &ATTRIBUTES, &[8, 10]), &mut table).unwrap();
    assert_eq!((table.routes(), session.counts().unknown), (0, 1));
    let octets = [up(1, None, None), update(0, 1, &[], &ATTRIBUTES, &[8, 10])];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    // A next hop of three octets.
    let wrong = [0x40, 3, 3, 192, 0, 2];
    session.receive(NOW, &update(0, 1, &[], &wrong, &[8, 10]), &mut table).unwrap();
    assert_eq!((table.routes(), session.counts().malformed), (0, 1));
}

#[test]
fn silence_and_closing_are_noticed() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let octets = [up(1, None, None), update(0, 1, &[], &ATTRIBUTES, &[8, 10])];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert!(!session.is_stuck(NOW + SESSION_TIMEOUT, SESSION_TIMEOUT));
    assert!(session.is_stuck(NOW + SESSION_TIMEOUT + Duration::from_secs(1), SESSION_TIMEOUT));
    session.close(&mut table);
    assert_eq!((table.routes(), table.peers().count()), (0, 0));
    let refused = session.receive(NOW, b"GET / HTTP/1.1\r\n", &mut table);
    assert_eq!(refused, Err(BmpError::Version(b'G')));
    assert_eq!(
        Session::new("r1", NOW).receive(NOW, &message(5, &[]), &mut table),
        Err(BmpError::Terminated)
    );
    let long = [3, 0xff, 0, 0, 0, 0];
    assert_eq!(
        Session::new("r1", NOW).receive(NOW, &long, &mut table),
        Err(BmpError::Length(0xff00_0000))
    );
}

#[test]
fn a_full_table_refuses_new_routes_and_peers_and_changes_old_ones() {
    let mut table = Table::new(Limits { peers: 1, routes: 1 });
    let mut session = Session::new("r1", NOW);
    let octets = [
        up(1, None, None),
        update(0, 1, &[], &ATTRIBUTES, &[8, 10, 8, 11]),
        update(0, 1, &[], &ATTRIBUTES[..17], &[8, 10]),
        up(2, None, None),
    ];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 1"]);
    assert_eq!((table.refused(), session.counts().unknown), (1, 1));
    assert_eq!(table.exactly("10.0.0.0/8".parse().unwrap())[0].attributes.next_hop, None);
}

#[test]
fn a_router_that_connects_again_takes_its_routes_over() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let first = update(0, 1, &[], &ATTRIBUTES, &[8, 10, 8, 11, 8, 12]);
    session.receive(NOW, &[up(1, None, None), first].concat(), &mut table).unwrap();
    // A message that is cut off must not disturb the next connection.
    session.receive(NOW, &[3, 0, 0], &mut table).unwrap();
    session.cut(&mut table);
    assert_eq!((table.routes(), session.peers()), (3, 0), "the routes stay");
    session.connect(NOW);
    // The router has lost 11/8, and has a new path to 12/8.
    let again = [
        up(1, None, None),
        update(0, 1, &[8, 11], &ATTRIBUTES, &[8, 10]),
        update(0, 1, &[], &ATTRIBUTES[..17], &[8, 13]),
    ];
    session.receive(NOW, &again.concat(), &mut table).unwrap();
    let now = ["10.0.0.0/8 1", "12.0.0.0/8 1", "13.0.0.0/8 1"];
    assert_eq!(prefixes_of(&table), now, "each is there once");
    session.expire(&mut table);
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 1", "13.0.0.0/8 1"]);
    assert_eq!(table.peers().map(|(_, p)| p.routes).collect::<Vec<_>>(), [2]);
    // A connection that ends before all routes have come costs none.
    session.cut(&mut table);
    let one = update(0, 1, &[], &ATTRIBUTES, &[8, 14]);
    session.receive(NOW, &[up(1, None, None), one.clone()].concat(), &mut table).unwrap();
    session.cut(&mut table);
    assert_eq!(table.peers().map(|(_, p)| p.routes).collect::<Vec<_>>(), [3]);
    // One that ends later costs what the router no longer had.
    let all = [up(1, None, None), one, update(0, 1, &[], &[], &[])];
    session.receive(NOW, &all.concat(), &mut table).unwrap();
    session.cut(&mut table);
    assert_eq!(prefixes_of(&table), ["14.0.0.0/8 1"]);
    // A peer that goes down in the new connection takes its old routes along.
    let down = message(2, &[peer(0, 1), vec![1]].concat());
    session.receive(NOW, &[up(1, None, None), down].concat(), &mut table).unwrap();
    assert_eq!((table.routes(), table.distinct(), table.peers().count()), (0, 0, 0));
}

#[test]
fn a_session_is_loaded_when_each_family_has_ended() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let mut take = |octets: Vec<u8>| {
        session.receive(NOW, &octets, &mut table).unwrap();
        session.is_loaded()
    };
    let of_v6 = [0x80, 14, 23, 0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0];
    let of_v6 = [&of_v6[..], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0x20]].concat();
    let end_v6 = [0x80, 15, 3, 0, 2, 1];
    let vpn = [0x80, 15, 3, 0, 1, 128];
    assert!(!take(up(1, None, None)));
    assert!(!take(update(0, 1, &[], &ATTRIBUTES, &[8, 10])));
    assert!(!take(update(0, 1, &[], &of_v6, &[])), "IPv6 has begun");
    assert!(!take(update(0, 1, &[], &vpn, &[])), "another family counts for none");
    assert!(!take(update(0, 1, &[], &[], &[])), "the end of IPv4 only");
    assert!(take(update(0, 1, &[], &end_v6, &[])));
    assert!(!take(up(2, None, None)), "a new peer has not ended");
    assert!(take(update(0, 2, &[], &[], &[])), "it has no IPv6");
}

#[derive(Clone, Debug)]
enum Step {
    Announce(u8, u8, u8),
    Withdraw(u8, u8),
    Down(u8),
    Reconnect,
    Expire,
}

proptest! {
    /// After any changes, the table has what a plain map has, and no attributes that are not used.
    #[test]
    fn the_table_is_a_map(steps in proptest::collection::vec(prop_oneof![
        8 => (0u8..3, 0u8..12, 0u8..4).prop_map(|(p, n, a)| Step::Announce(p, n, a)),
        4 => (0u8..3, 0u8..12).prop_map(|(p, n)| Step::Withdraw(p, n)),
        1 => (0u8..3).prop_map(Step::Down),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Expire),
    ], 0..80)) {
        let mut table = Table::new(Limits::default());
        let mut session = Session::new("r1", NOW);
        // The next hop, and whether the route is of an earlier connection.
        let mut model: BTreeMap<(u8, u8), (u8, bool)> = BTreeMap::new();
        for last in 0..3 {
            session.receive(NOW, &up(last, None, None), &mut table).unwrap();
        }
        for step in steps {
            // A length of 8 to 10 bits, and as many octets as it needs (RFC 4271 section 4.3).
            let prefix = |net: u8| [8 + net % 3, net, 0][..2 + usize::from(!net.is_multiple_of(3))].to_vec();
            let octets = match step {
                Step::Announce(last, net, hop) => {
                    model.insert((last, net), (hop, false));
                    let mut attributes = ATTRIBUTES;
                    attributes[23] = hop;
                    update(0, last, &[], &attributes, &prefix(net))
                }
                Step::Withdraw(last, net) => {
                    model.remove(&(last, net));
                    update(0, last, &prefix(net), &[], &[])
                }
                Step::Down(last) => {
                    model.retain(|key, _| key.0 != last);
                    let mut octets = message(2, &[peer(0, last), vec![1]].concat());
                    octets.extend(up(last, None, None));
                    octets
                }
                Step::Reconnect => {
                    // No peer has said that its routes have all come, so none goes.
                    model.values_mut().for_each(|route| route.1 = true);
                    session.cut(&mut table);
                    session.connect(NOW);
                    [0, 1, 2].map(|last| up(last, None, None)).concat()
                }
                Step::Expire => {
                    model.retain(|_, route| !route.1);
                    session.expire(&mut table);
                    Vec::new()
                }
            };
            session.receive(NOW, &octets, &mut table).unwrap();
        }
        prop_assert_eq!(table.routes(), model.len());
        let hops: std::collections::BTreeSet<u8> = model.values().map(|route| route.0).collect();
        prop_assert_eq!(table.distinct(), hops.len());
        for ((last, net), (hop, _)) in model {
            let prefix: IpNet = format!("{net}.0.0.0/{}", 8 + net % 3).parse().unwrap();
            let of = |r: &&crate::table::Route| {
                table.peer(r.peer).unwrap().address == IpAddr::from([192, 0, 2, last])
            };
            let found: Vec<_> = table.exactly(prefix).iter().filter(of).collect();
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].attributes.next_hop, Some(IpAddr::from([192, 0, 2, hop])));
        }
    }

    #[test]
    fn any_octets_are_borne(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut table = Table::new(Limits::default());
        let mut session = Session::new("r1", NOW);
        let body = [peer(0, 1), bgp_message(2, &octets)].concat();
        let all = [up(1, Some(3), Some(3)), message(0, &body), message(3, &octets), message(0, &octets)];
        session.receive(NOW, &all.concat(), &mut table).unwrap();
        let _ = session.receive(NOW, &octets, &mut table);
        let _ = crate::mrt::load(&octets[..], "r1", &mut table);
        session.close(&mut table);
    }
}
