//! Tests of requests on new connections, and of closed loops.

use forebay_sim::{Congestion, Connections, Loss, RequestTiming, ScheduledRequest, TrafficKind};
use forebay_units::{Bytes, Nanos};

use crate::dumbbell::network::{Dumbbell, Network, fifo_queue, requests};

const S: Nanos = Nanos::from_secs(1);
const MS: Nanos = Nanos::from_millis(1);

fn one_way_losing(loss: Loss, back: Loss) -> Network {
    let dumbbell = Dumbbell::new(96, 50, fifo_queue(Bytes(600_000)));
    Dumbbell { loss, back, ..dumbbell }.build()
}

#[test]
fn a_new_connection_costs_a_round_trip() {
    let mut net = one_way_losing(Loss::None, Loss::None);
    let schedule = vec![
        ScheduledRequest { at: S, connection: 0, size: 1000 },
        ScheduledRequest { at: S * 2, connection: 0, size: 1000 },
    ];
    net.add(requests(schedule, Connections::PerRequest { limit: 9 }), S * 9);
    net.sim.run_until(S * 9);
    for ((_, end), start) in net.sim.observer().answered.iter().zip([S, S * 2]) {
        // The SYN-ACK and the server's first flight take time at the bottleneck.
        let wire = net.rate.time_for(Bytes(74)).0 + net.rate.time_for(Bytes(1066)).0;
        let took = (*end - start).0;
        assert!(took.abs_diff(2 * net.rtt.0 + wire) < 50_000, "{took}");
    }
    let totals = net.sim.totals();
    assert_eq!((net.sim.connections(), totals.live, totals.timeouts), (0, 0, 0));
    net.check_accounts();
}

#[test]
fn requests_past_the_limit_wait() {
    let mut net = one_way_losing(Loss::None, Loss::None);
    let schedule = vec![ScheduledRequest { at: S, connection: 0, size: 1000 }; 4];
    net.add(requests(schedule, Connections::PerRequest { limit: 1 }), S * 9);
    net.sim.run_until(S * 9);
    let ends: Vec<_> = net.sim.observer().answered.iter().map(|a| a.1 - S).collect();
    assert_eq!(ends.len(), 4);
    for (n, end) in (1..).zip(ends) {
        assert!(
            end > MS * 100 * n && end < MS * 102 * n,
            "two round trips per request: {n} {end:?}"
        );
    }
}

#[test]
fn lost_handshakes_are_repeated_and_all_connections_end() {
    for loss in [Loss::Random(0.3), Loss::Burst { begin: 0.2, end: 0.4 }] {
        let mut net = one_way_losing(loss, loss);
        let schedule: Vec<_> = (0..200)
            .map(|n| ScheduledRequest { at: MS * 10 * n, connection: 0, size: 3000 })
            .collect();
        net.add(requests(schedule, Connections::PerRequest { limit: 300 }), S * 9);
        net.sim.run_until(S * 600);
        let seen = net.sim.observer();
        assert!(seen.answered.len() > 190, "{} of 200", seen.answered.len());
        assert_eq!((net.sim.connections(), net.sim.totals().live), (0, 0), "all have ended");
        let slow = seen.answered.iter().filter(|a| a.1 - MS * 10 * a.0 > S).count();
        assert!(slow > 20, "a lost SYN costs a second: {slow}");
        net.check_accounts();
    }
}

#[test]
fn a_connection_to_a_server_that_never_answers_is_given_up() {
    let mut net = one_way_losing(Loss::Random(1.0 - 1e-12), Loss::None);
    let schedule = vec![ScheduledRequest { at: S, connection: 0, size: 1000 }];
    net.add(requests(schedule, Connections::PerRequest { limit: 1 }), S * 9);
    net.sim.run_until(S * 127);
    assert_eq!(net.sim.connections(), 1, "1 + 2 + ... + 64 seconds");
    net.sim.run_until(S * 300);
    assert_eq!((net.sim.connections(), net.sim.observer().answered.len()), (0, 0));
}

#[test]
fn closed_loops_send_the_next_request_when_they_are_answered() {
    for connections in [Connections::Persistent(3), Connections::PerRequest { limit: 3 }] {
        let mut net = one_way_losing(Loss::None, Loss::None);
        let timing = RequestTiming::Closed { sizes: vec![1000, 2000, 3000, 4000] };
        let congestion = Congestion::Cubic;
        net.add(TrafficKind::Requests { timing, connections, congestion }, S * 10);
        net.sim.run_until(S * 12);
        let seen = net.sim.observer();
        assert_eq!(seen.asked.len(), seen.answered.len());
        assert!(seen.asked.iter().all(|a| a.2 < S * 10), "{:?}", seen.asked.last());
        // One round trip per answer, or two with a handshake.
        let trips = if connections == Connections::Persistent(3) { 1 } else { 2 };
        let rounds = 200 / trips * 3;
        assert!(seen.answered.len().abs_diff(rounds) < rounds / 50, "{}", seen.answered.len());
        // The three clients request the first three sizes, then client 0 requests the fourth.
        let sizes: Vec<_> = seen.asked.iter().map(|a| a.1).collect();
        let mut head = [sizes[0], sizes[1], sizes[2]];
        head.sort_unstable();
        assert_eq!(head, [1000, 2000, 3000]);
        let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
        assert!((2400..2600).contains(&mean), "{mean}");
        net.check_accounts();
    }
}
