//! Tests of endpoints that a caller wrote: times, payloads, ECN, timers, addresses and bounds.

mod mistakes;
mod script;

use forebay_queue::{Ecn, Fifo, FqCodel, Limit, fifo, fq_codel};
use forebay_sim::{
    Capacity, Congestion, EndpointId, Jitter, LinkConfig, Loss, Path, Queue, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};
use proptest::prelude::*;

use script::{Arrival, Pair, address, addresses};

const MS: Nanos = Nanos::from_millis(1);

fn fifo_queue(bytes: u64) -> Queue {
    Box::new(Fifo::new(fifo::Config { limit: Limit::bytes(Bytes(bytes)) }).unwrap())
}

/// A link of 8 Mbit/s, a byte in each microsecond, and 10 ms.
fn byte_per_microsecond(queue: Queue) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Constant(Rate::from_mbps(8)),
        delay: MS * 10,
        queue: Some(queue),
        ..LinkConfig::default()
    }
}

#[test]
fn a_datagram_takes_its_length_and_the_delay() {
    let [a, b] = addresses();
    let mut pair = Pair::new(1, byte_per_microsecond(fifo_queue(10_000)));
    for payload in [vec![7; 958], Vec::new()] {
        pair.sim.endpoint_mut(pair.a).send(MS * 3, b, Ecn::NotEct, payload);
    }
    pair.sim.run_until(MS * 100);
    // 14 B of Ethernet, 20 B of IPv4 and 8 B of UDP are added.
    let arrival = |us, payload| Arrival {
        at: MS * 13 + Nanos::from_micros(us),
        from: a,
        ecn: Ecn::NotEct,
        payload,
    };
    assert_eq!(pair.arrivals_at_b(), [arrival(1000, vec![7; 958]), arrival(1042, Vec::new())]);
    assert_eq!(pair.sim.endpoint(pair.a).expiries, [MS * 3], "one timer for both");
    assert_eq!(pair.sim.link(pair.link).sent, 2);
}

#[test]
fn ipv6_headers_are_longer() {
    let at = ["[2001:db8::1]:1000", "[2001:db8::2]:2000"].map(address);
    let mut pair = Pair::at(1, byte_per_microsecond(fifo_queue(10_000)), at);
    pair.sim.endpoint_mut(pair.a).send(Nanos::ZERO, at[1], Ecn::NotEct, vec![0; 938]);
    pair.sim.run_until(MS * 100);
    assert_eq!(pair.arrivals_at_b()[0].at, MS * 11);
    assert_eq!(pair.arrivals_at_b()[0].from, at[0]);
}

#[test]
fn ecn_codepoints_arrive_in_both_directions() {
    let [a, b] = addresses();
    let mut pair = Pair::new(1, byte_per_microsecond(fifo_queue(10_000)));
    pair.sim.endpoint_mut(pair.b).echoes = true;
    let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    for ecn in all {
        pair.sim.endpoint_mut(pair.a).send(Nanos::ZERO, b, ecn, vec![1]);
    }
    pair.sim.run_until(MS * 100);
    let seen = |arrivals: &[Arrival]| arrivals.iter().map(|a| (a.from, a.ecn)).collect::<Vec<_>>();
    assert_eq!(seen(pair.arrivals_at_b()), all.map(|ecn| (a, ecn)));
    assert_eq!(seen(&pair.sim.endpoint(pair.a).arrivals), all.map(|ecn| (b, ecn)));
}

#[test]
fn a_queue_marks_those_that_understand_ecn_and_drops_the_others() {
    for (ecn, marks) in [(Ecn::Ect0, true), (Ecn::NotEct, false)] {
        let [_, b] = addresses();
        let queue = FqCodel::new(fq_codel::Config::default()).unwrap();
        let mut pair = Pair::new(1, byte_per_microsecond(Box::new(queue)));
        // Twice the capacity for a second.
        for n in 0..2_000 {
            let at = Nanos::from_micros(500 * n);
            pair.sim.endpoint_mut(pair.a).send(at, b, ecn, vec![0; 958]);
        }
        pair.sim.run_until(Nanos::from_secs(10));
        let link = pair.sim.link(pair.link);
        let marked = pair.arrivals_at_b().iter().filter(|a| a.ecn == Ecn::Ce).count() as u64;
        assert_eq!(marked, link.marked);
        assert_eq!((marked > 0, link.dropped > 0), (marks, !marks), "{link:?}");
        assert_eq!(link.sent, pair.arrivals_at_b().len() as u64);
    }
}

#[test]
fn a_change_from_outside_is_sent_at_once() {
    let [_, b] = addresses();
    let mut pair = Pair::new(1, LinkConfig { delay: MS, ..LinkConfig::default() });
    pair.sim.run_until(MS * 50);
    // The second one is in the past, and the third one waits for its time.
    for at in [50, 7, 60] {
        pair.sim.endpoint_mut(pair.a).send(MS * at, b, Ecn::NotEct, vec![at as u8]);
    }
    pair.sim.run_until(MS * 55);
    let arrivals = |pair: &Pair| -> Vec<_> {
        pair.arrivals_at_b().iter().map(|a| (a.at, a.payload[0])).collect()
    };
    assert_eq!(arrivals(&pair), [(MS * 51, 50), (MS * 51, 7)]);
    // An earlier timer replaces a later one.
    let script = pair.sim.endpoint_mut(pair.a);
    script.send(MS * 56, b, Ecn::NotEct, vec![56]);
    script.departures.rotate_right(1);
    pair.sim.run_until(MS * 100);
    assert_eq!(arrivals(&pair)[2..], [(MS * 57, 56), (MS * 61, 60)]);
    assert_eq!(pair.sim.endpoint(pair.a).expiries, [MS * 50, MS * 56, MS * 60]);
}

#[test]
fn a_server_has_several_clients() {
    let mut pair = Pair::new(1, LinkConfig { delay: MS, ..LinkConfig::default() });
    let [first, server] = addresses();
    let second = address("10.0.0.3:1000");
    let client = pair.sim.add_endpoint(second, script::Script::default()).unwrap();
    pair.sim.join(client, pair.b, pair.forward, pair.backward).unwrap();
    pair.sim.endpoint_mut(pair.b).echoes = true;
    for n in 0..3 {
        pair.sim.endpoint_mut(pair.a).send(MS * n, server, Ecn::Ect0, vec![1]);
        pair.sim.endpoint_mut(client).send(MS * n, server, Ecn::Ect1, vec![2]);
    }
    // The clients are not joined.
    pair.sim.endpoint_mut(client).send(MS * 3, first, Ecn::NotEct, vec![3]);
    pair.sim.run_until(MS * 100);
    let echoes = |id: EndpointId<script::Script>| {
        let arrivals = &pair.sim.endpoint(id).arrivals;
        arrivals.iter().map(|a| (a.from, a.payload[0])).collect::<Vec<_>>()
    };
    assert_eq!(echoes(pair.a), [(server, 1); 3]);
    assert_eq!(echoes(client), [(server, 2); 3]);
    let counters = pair.sim.endpoint_counters(client);
    assert_eq!((counters.sent, counters.received, counters.no_route), (3, 3, 1));
}

#[test]
fn datagrams_above_the_mtu_are_dropped() {
    let [_, b] = addresses();
    let mut pair = Pair::new(1, LinkConfig { delay: MS, ..LinkConfig::default() });
    let send = |pair: &mut Pair, lengths: [usize; 2]| {
        for length in lengths {
            let now = pair.sim.now();
            pair.sim.endpoint_mut(pair.a).send(now, b, Ecn::NotEct, vec![0; length]);
        }
        pair.sim.run_until(pair.sim.now() + MS * 10);
    };
    send(&mut pair, [1472, 1473]);
    pair.sim.set_mtu(pair.b, pair.a, Bytes(65_521)).unwrap();
    send(&mut pair, [65_493, 65_494]);
    pair.sim.set_mtu(pair.a, pair.b, Bytes(1280)).unwrap();
    send(&mut pair, [1252, 70_000]);
    let lengths: Vec<_> = pair.arrivals_at_b().iter().map(|a| a.payload.len()).collect();
    assert_eq!(lengths, [1472, 65_493, 1252]);
    assert_eq!(pair.sim.endpoint_counters(pair.a).too_long, 3);
}

#[test]
fn endpoints_share_a_queue_with_the_simulators_own_tcp() {
    let [_, b] = addresses();
    let queue = FqCodel::new(fq_codel::Config::default()).unwrap();
    let mut pair = Pair::new(1, byte_per_microsecond(Box::new(queue)));
    let path = Path { forward: pair.forward, backward: pair.backward, rtt: MS * 15 };
    let kind = TrafficKind::Bulk { flows: 1, congestion: Congestion::Cubic };
    let stop = Nanos::from_secs(10);
    pair.sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop, ecn: None, kind }).unwrap();
    // A quarter of the capacity.
    for n in 0..2_500 {
        pair.sim.endpoint_mut(pair.a).send(MS * 4 * n, b, Ecn::NotEct, vec![0; 958]);
    }
    pair.sim.run_until(stop);
    let waits = pair.arrivals_at_b().iter().zip(0..).map(|(a, n)| a.at - MS * 4 * n);
    let slowest = waits.max().unwrap();
    // FQ-CoDel serves a sparse flow next: it waits for one packet of TCP, 1.514 ms.
    assert_eq!(pair.sim.endpoint_counters(pair.b).received, 2_498, "two are on the way");
    assert!(slowest > MS * 11 && slowest < MS * 13, "{slowest}");
    assert!(pair.sim.link(pair.link).received > 6_000, "TCP uses the rest");
}

/// Returns what arrives of numbered datagrams over a link with loss, jitter and a short queue.
fn trace(seed: u64, loss: f64, reorders: bool, lengths: &[usize]) -> Vec<Arrival> {
    let [_, b] = addresses();
    let mut pair = Pair::new(
        seed,
        LinkConfig {
            loss: Loss::Random(loss),
            jitter: Jitter { up_to: MS * 4, reorders },
            ..byte_per_microsecond(fifo_queue(5_000))
        },
    );
    for (n, length) in lengths.iter().enumerate() {
        let at = Nanos::from_micros(300 * n as u64);
        pair.sim.endpoint_mut(pair.a).send(at, b, Ecn::Ect0, payload(n, *length));
    }
    pair.sim.run_until(Nanos::from_secs(10));
    pair.arrivals_at_b().to_vec()
}

/// Returns the payload of datagram `n`, whose bytes all depend on the number.
fn payload(n: usize, length: usize) -> Vec<u8> {
    let number = (n as u32).to_be_bytes();
    number.into_iter().chain((0..length).map(|i| (n * 31 + i) as u8)).collect()
}

proptest! {
    #[test]
    fn payloads_arrive_unchanged_and_at_most_once(
        seed in any::<u64>(),
        loss in 0.0..0.5,
        reorders in any::<bool>(),
        lengths in prop::collection::vec(0..1400_usize, 1..200),
    ) {
        let arrivals = trace(seed, loss, reorders, &lengths);
        let mut numbers = Vec::new();
        for arrival in &arrivals {
            let number = u32::from_be_bytes(arrival.payload[..4].try_into().unwrap()) as usize;
            prop_assert_eq!(&arrival.payload, &payload(number, lengths[number]));
            numbers.push(number);
        }
        if !reorders {
            prop_assert!(numbers.is_sorted());
        }
        numbers.sort_unstable();
        prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn a_seed_gives_the_same_trace() {
    let lengths = [700; 500];
    let first = trace(7, 0.1, true, &lengths);
    assert!((100..400).contains(&first.len()), "{} of 500", first.len());
    assert_eq!(first, trace(7, 0.1, true, &lengths));
    assert_ne!(first, trace(8, 0.1, true, &lengths));
}
