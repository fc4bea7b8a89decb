use super::*;
use forebay_routes::table::Limits;

use crate::config::BmpRouter;

const BEGIN: u64 = 1_795_352_400_000;
const ONE: &str = "192.0.2.1";
const TWO: &str = "2001:db8::2";

/// The time this many seconds after the start.
fn at(seconds: u64) -> u64 {
    BEGIN + seconds * 1000
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two routers, of which the second is optional; next hops 192.0.2.1 and 192.0.2.2.
fn learning(limits: Limits) -> Learning {
    let router = |address: &str, name: &str, optional| BmpRouter {
        address: address.parse().unwrap(),
        name: name.to_owned(),
        optional,
    };
    let config = Bmp {
        listen: Vec::new(),
        routers: vec![router(ONE, "rome", false), router(TWO, "oslo", true)],
        limits,
        hold: Duration::from_secs(120),
        silence: Duration::from_secs(600),
        settle: Duration::from_secs(60),
    };
    let hops = [(address(ONE), RouterId(0)), (address("192.0.2.2"), RouterId(1))];
    Learning::new(config, hops.into(), BEGIN)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut peer = vec![0; 22];
    peer.extend([192, 0, 2, 9]);
    peer.extend(64500_u32.to_be_bytes());
    peer.extend([0; 12]);
    let length = (6 + peer.len() + body.len()) as u32;
    [&[3][..], &length.to_be_bytes(), &[kind], &peer, body].concat()
}

fn bgp(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[0xff; 16][..], &(body.len() as u16 + 19).to_be_bytes(), &[kind], body].concat()
}

fn up() -> Vec<u8> {
    let open = bgp(1, &[4, 0xfb, 0xf4, 0, 90, 1, 1, 1, 1, 0]);
    message(3, &[vec![0; 20], open.clone(), open].concat())
}

/// An UPDATE that announces 10.`net`.0.0/16 through 192.0.2.`hop`.
fn route(net: u8, hop: u8) -> Vec<u8> {
    let attributes =
        [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4, 0x40, 3, 4, 192, 0, 2, hop];
    let body = [&[0, 0, 0, attributes.len() as u8][..], &attributes, &[16, 10, net]].concat();
    message(0, &bgp(2, &body))
}

fn end_of_rib() -> Vec<u8> {
    message(0, &bgp(2, &[0, 0, 0, 0]))
}

fn prefixes(learning: &Learning) -> Vec<(String, u32)> {
    let learned = learning.prefixes().unwrap().prefixes;
    learned.into_iter().map(|(net, users)| (net.to_string(), users.router.0)).collect()
}

fn state(learning: &Learning, router: usize, now: u64) -> (State, usize, Option<String>) {
    let session = learning.report(now).sessions.swap_remove(router);
    (session.state, session.routes, session.ended)
}

/// Connects the first router, which sends two routes and their end.
fn loaded(learning: &Learning, now: u64) -> Ticket {
    let ticket = learning.connect(address(ONE), now).unwrap();
    let octets = [up(), route(1, 1), route(2, 2), end_of_rib()].concat();
    assert!(learning.receive(ticket, &octets, now));
    ticket
}

#[test]
fn prefixes_are_known_once_every_needed_router_has_sent_all() {
    let learning = learning(Limits::default());
    let refused = learning.prefixes().unwrap_err().to_string();
    assert!(refused.starts_with("rome has not connected (1 of the routers"), "{refused}");
    // A socket for both families reports IPv4 addresses mapped to IPv6.
    let ticket = learning.connect(address("::ffff:192.0.2.1"), at(1)).unwrap();
    assert!(learning.receive(ticket, &[up(), route(1, 1)].concat(), at(1)));
    let refused = learning.prefixes().unwrap_err().to_string();
    assert!(refused.starts_with("rome has not sent all its routes yet"), "{refused}");
    assert!(learning.receive(ticket, &[route(2, 2), route(3, 9), end_of_rib()].concat(), at(5)));
    assert_eq!(learning.ready(), Ok(at(5)));
    assert_eq!(prefixes(&learning), [("10.1.0.0/16".to_owned(), 0), ("10.2.0.0/16".to_owned(), 1)]);
    let known = Known::of(&learning.prefixes().unwrap());
    assert_eq!((known.prefixes, known.hops), (2, vec![("192.0.2.9".to_owned(), 1)]));
    assert_eq!(learning.users().router(address("10.2.3.4")), Some(RouterId(1)));
    assert_eq!(learning.users().origin(address("10.2.3.4")), Some(64500));
    assert_eq!(learning.users().router(address("10.3.3.4")), None, "the next hop is unknown");
}

#[test]
fn a_router_that_never_says_that_it_has_sent_all_settles() {
    let learning = learning(Limits::default());
    let ticket = learning.connect(address(ONE), at(0)).unwrap();
    learning.tick(at(100));
    assert!(learning.ready().is_err(), "without a peer there is nothing to wait for");
    assert!(learning.receive(ticket, &[up(), route(1, 1)].concat(), at(100)));
    assert_eq!(learning.ready(), Ok(at(100)));
}

#[test]
fn routes_of_a_cut_session_stay_for_the_hold_time() {
    let learning = learning(Limits::default());
    let ticket = loaded(&learning, at(0));
    learning.end(ticket, "the router closed the connection", at(10));
    learning.tick(at(129));
    assert_eq!(prefixes(&learning).len(), 2);
    let why = Some("the router closed the connection".to_owned());
    assert_eq!(state(&learning, 0, at(129)), (State::Held, 2, why.clone()));
    learning.tick(at(130));
    assert_eq!(state(&learning, 0, at(130)), (State::Down, 0, why));
    let refused = learning.prefixes().unwrap_err().to_string();
    assert!(refused.starts_with("rome has no session, and its routes are gone"), "{refused}");
    let told: Vec<String> = learning.report(at(130)).events.into_iter().map(|e| e.what).collect();
    let expected = [
        "connected",
        "its first routes have all come",
        "cut: the router closed the connection; its routes stay for 120 s",
        "2 routes that were held are gone",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_router_that_is_back_in_time_keeps_its_routes() {
    let learning = learning(Limits::default());
    let ticket = loaded(&learning, at(0));
    learning.end(ticket, "reset", at(10));
    let again = learning.connect(address(ONE), at(100)).unwrap();
    assert!(learning.receive(again, &[up(), route(1, 2)].concat(), at(100)));
    learning.tick(at(219));
    assert_eq!(prefixes(&learning), [("10.1.0.0/16".to_owned(), 1), ("10.2.0.0/16".to_owned(), 1)]);
    // What the router has not announced again goes 120 s after it was back. It has settled then.
    learning.tick(at(220));
    assert_eq!(prefixes(&learning), [("10.1.0.0/16".to_owned(), 1)]);
    assert_eq!(learning.ready(), Ok(at(220)));
}

#[test]
fn a_router_that_is_back_without_routes_is_not_complete() {
    let learning = learning(Limits::default());
    let ticket = loaded(&learning, at(0));
    learning.end(ticket, "reset", at(10));
    learning.connect(address(ONE), at(20)).unwrap();
    learning.tick(at(139));
    assert_eq!(prefixes(&learning).len(), 2);
    learning.tick(at(140));
    assert!(learning.prefixes().is_err());
    assert_eq!(state(&learning, 0, at(140)).0, State::Up);
}

#[test]
fn a_silent_session_is_stuck_and_cut() {
    let learning = learning(Limits::default());
    let ticket = loaded(&learning, at(0));
    learning.tick(at(600));
    assert!(learning.is_current(ticket));
    learning.tick(at(601));
    assert!(!learning.is_current(ticket), "its connection is closed");
    let report = learning.report(at(601));
    assert_eq!((report.sessions[0].stuck, report.sessions[0].cuts), (1, 1));
    let why = "stuck: nothing was heard for 600 s";
    assert_eq!(report.sessions[0].ended.as_deref(), Some(why));
    assert_eq!(prefixes(&learning).len(), 2, "its routes are held");
    assert!(!learning.receive(ticket, &route(4, 1), at(602)), "the connection is over");
    assert_eq!(learning.report(at(602)).routes, 2);
}

#[test]
fn octets_that_are_no_bmp_close_the_session_and_change_nothing_else() {
    let learning = learning(Limits::default());
    let ticket = loaded(&learning, at(0));
    let other = learning.connect(address(TWO), at(1)).unwrap();
    assert!(learning.receive(other, &[up(), route(5, 1)].concat(), at(1)));
    assert!(!learning.receive(other, b"GET / HTTP/1.1\r\n\r\n", at(2)));
    let (state_of, routes, why) = state(&learning, 1, at(2));
    assert_eq!((state_of, routes), (State::Held, 1));
    assert_eq!(
        why.as_deref(),
        Some("the router speaks BMP version 71, or no BMP: version 3 is needed")
    );
    assert!(learning.is_current(ticket));
    assert_eq!(state(&learning, 0, at(2)), (State::Up, 2, None));
    assert_eq!(learning.ready(), Ok(at(0)), "the other one is optional");
}

#[test]
fn a_router_has_one_connection_and_strangers_none() {
    let learning = learning(Limits::default());
    let first = loaded(&learning, at(0));
    let second = loaded(&learning, at(1));
    assert!(!learning.is_current(first) && learning.is_current(second));
    assert!(!learning.receive(first, &route(7, 1), at(2)));
    // The end of the old connection is not that of the new one.
    learning.end(first, "reset", at(2));
    assert_eq!(state(&learning, 0, at(2)).0, State::Up);
    assert_eq!(learning.report(at(2)).routes, 2, "the new connection took over the routes");
    assert_eq!(learning.connect(address("192.0.2.77"), at(3)), None);
    assert_eq!(learning.report(at(3)).strangers, 1);
}

#[test]
fn a_full_table_and_many_events_stay_bounded() {
    let learning = learning(Limits { peers: 4, routes: 3 });
    let mut ticket = loaded(&learning, at(0));
    assert!(learning.receive(ticket, &[route(3, 1), route(4, 1), route(1, 2)].concat(), at(1)));
    let report = learning.report(at(1));
    assert_eq!((report.routes, report.refused), (3, 1));
    assert_eq!(learning.users().router(address("10.1.0.1")), Some(RouterId(1)), "it has changed");
    for second in 2..=100 {
        learning.end(ticket, "reset", at(second));
        ticket = learning.connect(address(ONE), at(second)).unwrap();
        assert!(learning.receive(ticket, &up(), at(second)));
    }
    let report = learning.report(at(100));
    assert_eq!((report.events.len(), report.routes), (MAX_EVENTS, 3));
    assert_eq!(report.sessions[0].cuts, 99);
    // The first cut was at 2 s, and the router was back at once; that counts.
    learning.tick(at(121));
    assert_eq!(learning.report(at(121)).routes, 3);
    learning.tick(at(122));
    assert_eq!(learning.report(at(122)).routes, 0);
}
