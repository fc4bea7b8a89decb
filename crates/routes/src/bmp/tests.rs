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
fn routes_before_and_after_policy_are_kept_apart_and_outgoing_ones_left_out() {
    let mut table = Table::new(Limits::default());
    let mut session = Session::new("r1", NOW);
    let octets = [
        up(1, None, None),
        update(0, 1, &[], &ATTRIBUTES, &[8, 10]),
        update(0x40, 1, &[], &ATTRIBUTES, &[8, 10]),
        update(0x10, 1, &[], &ATTRIBUTES, &[8, 12]),
    ];
    session.receive(NOW, &octets.concat(), &mut table).unwrap();
    assert_eq!(prefixes_of(&table), ["10.0.0.0/8 2"]);
    assert_eq!(session.counts().outgoing, 1);
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
    assert!(!session.is_stuck(NOW + SILENCE));
    assert!(session.is_stuck(NOW + SILENCE + Duration::from_secs(1)));
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

#[derive(Clone, Debug)]
enum Step {
    Announce(u8, u8, u8),
    Withdraw(u8, u8),
    Down(u8),
}

proptest! {
    /// After any changes, the table has what a plain map has, and no attributes that are not used.
    #[test]
    fn the_table_is_a_map(steps in proptest::collection::vec(prop_oneof![
        8 => (0u8..3, 0u8..12, 0u8..4).prop_map(|(p, n, a)| Step::Announce(p, n, a)),
        4 => (0u8..3, 0u8..12).prop_map(|(p, n)| Step::Withdraw(p, n)),
        1 => (0u8..3).prop_map(Step::Down),
    ], 0..80)) {
        let mut table = Table::new(Limits::default());
        let mut session = Session::new("r1", NOW);
        let mut model: BTreeMap<(u8, u8), u8> = BTreeMap::new();
        for last in 0..3 {
            session.receive(NOW, &up(last, None, None), &mut table).unwrap();
        }
        for step in steps {
            // A length of 8 to 10 bits, and as many octets as it needs (RFC 4271 section 4.3).
            let prefix = |net: u8| [8 + net % 3, net, 0][..2 + usize::from(!net.is_multiple_of(3))].to_vec();
            let octets = match step {
                Step::Announce(last, net, hop) => {
                    model.insert((last, net), hop);
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
            };
            session.receive(NOW, &octets, &mut table).unwrap();
        }
        prop_assert_eq!(table.routes(), model.len());
        let hops: std::collections::BTreeSet<u8> = model.values().copied().collect();
        prop_assert_eq!(table.distinct(), hops.len());
        for ((last, net), hop) in model {
            let prefix: ipnet::IpNet = format!("{net}.0.0.0/{}", 8 + net % 3).parse().unwrap();
            let found = table.exactly(prefix).iter().find(|r| {
                table.peer(r.peer).unwrap().address == IpAddr::from([192, 0, 2, last])
            });
            prop_assert_eq!(found.unwrap().attributes.next_hop, Some(IpAddr::from([192, 0, 2, hop])));
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
