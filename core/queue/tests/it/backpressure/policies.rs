//! The results of probes and the order of resumed flows with each policy.

use forebay_queue::backpressure::{Config, FlowId, Gate, Hysteresis, Order, Probe, Refused};
use forebay_queue::{
    ConfigError, DropReason, Drr, Fifo, FqCodel, Limit, Qdisc, Sfq, StrictPriority, TokenBucket,
    drr, fifo, fq_codel, sfq, token_bucket,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::backpressure::packet::{Pkt, pkt};

const NOW: Nanos = Nanos::from_secs(1);

/// Returns a configuration in which every departure resumes a flow.
fn config() -> Config {
    Config { flows: 16, hysteresis: Hysteresis::Packets(1), ..Config::default() }
}

fn fifo(limit: Limit) -> Fifo<Pkt> {
    Fifo::new(fifo::Config { limit }).unwrap()
}

fn no_drop(packet: Pkt, reason: DropReason) {
    panic!("{packet:?} was dropped: {reason}");
}

/// Offers a packet and returns whether it was enqueued.
fn offer<Q: Qdisc<Pkt>>(gate: &mut Gate<Pkt, Q>, packet: Pkt) -> bool {
    gate.offer(NOW, packet, &mut no_drop).is_ok()
}

fn dequeue<Q: Qdisc<Pkt>>(gate: &mut Gate<Pkt, Q>, now: Nanos) -> Option<u32> {
    gate.dequeue(now, &mut no_drop).map(|packet| packet.flow)
}

fn resumed<Q: Qdisc<Pkt>>(gate: &mut Gate<Pkt, Q>) -> Vec<u32> {
    gate.resume(NOW).map(|flow| flow.0).collect()
}

fn probe<Q: Qdisc<Pkt>>(gate: &Gate<Pkt, Q>, flow: u32, class: u8) -> Probe {
    gate.probe(FlowId(flow), class)
}

#[test]
fn a_fifo_has_room_by_its_limit() {
    let mut gate = Gate::new(config(), fifo(Limit::packets(3))).unwrap();
    for flow in 0..3 {
        assert_eq!(probe(&gate, flow, 0), Probe::Go);
        assert!(offer(&mut gate, pkt(flow, 0)));
    }
    assert_eq!(probe(&gate, 3, 0), Probe::Full);
    for flow in [5, 3, 4] {
        assert!(!offer(&mut gate, pkt(flow, 0)));
    }
    assert_eq!(probe(&gate, 3, 0), Probe::Paused);
    assert!(resumed(&mut gate).is_empty());
    assert_eq!(dequeue(&mut gate, NOW), Some(0));
    assert_eq!(resumed(&mut gate), [5], "the first to be paused");
    // The room is reserved for flow 5; another flow does not get it.
    assert_eq!((probe(&gate, 5, 0), probe(&gate, 6, 0)), (Probe::Go, Probe::Full));
    assert!(offer(&mut gate, pkt(5, 0)));
}

#[test]
fn a_fifo_limited_in_bytes_has_room_for_the_largest_packet() {
    let mut gate = Gate::new(config(), fifo(Limit::bytes(Bytes(4000)))).unwrap();
    let short = |flow| Pkt { len: 400, ..pkt(flow, 0) };
    assert!(offer(&mut gate, pkt(0, 0)) && offer(&mut gate, short(1)));
    assert_eq!(probe(&gate, 2, 0), Probe::Go, "2086 are left");
    assert!(offer(&mut gate, Pkt { len: 600, ..pkt(2, 0) }));
    assert_eq!(probe(&gate, 3, 0), Probe::Full, "1486 are left");
    assert!(!offer(&mut gate, short(3)), "a short packet does not pass others");
    assert!(matches!(
        Gate::new(config(), fifo(Limit::bytes(Bytes(1513)))),
        Err(ConfigError::OutOfRange { setting: "largest", value: 1514, max: 1513, .. })
    ));
}

#[test]
fn a_packet_that_does_not_fit_the_empty_buffer_is_refused_for_good() {
    let mut gate = Gate::new(config(), fifo(Limit::bytes(Bytes(2000)))).unwrap();
    let giant = |flow| Pkt { len: 2001, ..pkt(flow, 0) };
    assert_eq!(gate.offer(NOW, giant(0), &mut no_drop), Err(Refused::Never(giant(0))));
    assert!(!gate.is_paused(FlowId(0)) && offer(&mut gate, Pkt { len: 100, ..pkt(1, 0) }));
    // With a packet in the buffer the refusal may be temporary, so the flow retries once.
    assert_eq!(gate.offer(NOW, giant(0), &mut no_drop), Err(Refused::Paused(giant(0))));
    assert!(resumed(&mut gate).is_empty());
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(1), vec![0]));
    assert_eq!(gate.offer(NOW, giant(0), &mut no_drop), Err(Refused::Never(giant(0))));
}

#[test]
fn the_last_departure_resumes_all_retrying_flows() {
    let mut gate = Gate::new(config(), fifo(Limit::bytes(Bytes(2000)))).unwrap();
    let giant = |flow| Pkt { len: 2001, ..pkt(flow, 0) };
    assert!(offer(&mut gate, Pkt { len: 100, ..pkt(0, 0) }));
    assert!(!offer(&mut gate, giant(1)) && !offer(&mut gate, giant(2)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![1]));
    // Flow 1 sends nothing, so no departure follows, and flow 2 gets the room.
    gate.idle(FlowId(1));
    assert_eq!(resumed(&mut gate), [2]);
}

#[test]
fn a_flow_has_two_packets_in_the_buffer_at_most_and_then_waits_for_its_turn() {
    let mut gate = Gate::new(config(), fifo(Limit::packets(4))).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)) && offer(&mut gate, pkt(0, 1)));
    assert_eq!(probe(&gate, 0, 0), Probe::Limit);
    assert!(!offer(&mut gate, pkt(0, 2)));
    assert_eq!(gate.waiting(), 0, "the flow waits for its own packet");
    assert!(offer(&mut gate, pkt(1, 0)) && offer(&mut gate, pkt(2, 0)));
    assert!(!offer(&mut gate, pkt(3, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![3]));
    // Flow 0 queued behind flow 3. It may have one more packet in the buffer, but others wait.
    assert!(offer(&mut gate, pkt(3, 0)) && !offer(&mut gate, pkt(4, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![0]));
    assert!(offer(&mut gate, pkt(0, 2)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(1), vec![4]));
}

#[test]
fn a_flow_that_was_not_resumed_does_not_pass_waiting_flows() {
    let config = Config { hysteresis: Hysteresis::OneIn(1), ..config() };
    let mut gate = Gate::new(config, fifo(Limit::packets(4))).unwrap();
    for flow in 0..4 {
        assert!(offer(&mut gate, pkt(flow, 0)));
    }
    assert!(!offer(&mut gate, pkt(4, 0)));
    for flow in 0..3 {
        assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(flow), vec![]));
        assert_eq!(probe(&gate, 5 + flow, 0), Probe::Turn, "there is room, but flow 4 waits");
    }
    assert!(!offer(&mut gate, pkt(5, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(3), vec![4, 5]));
    assert_eq!(probe(&gate, 6, 0), Probe::Go, "no flow waits now, and two slots are unclaimed");
}

#[test]
fn fair_queueing_gives_each_flow_its_share() {
    let qdisc = Sfq::new(sfq::Config { limit: 6, ..sfq::Config::default() }).unwrap();
    let config = Config { order: Order::RoundRobin, in_buffer: 100, ..config() };
    let mut gate = Gate::new(config, qdisc).unwrap();
    for seq in 0..6 {
        assert!(offer(&mut gate, pkt(0, seq)), "a single flow may use the whole buffer");
    }
    assert!(!offer(&mut gate, pkt(1, 0)) && !offer(&mut gate, pkt(2, 0)));
    assert_eq!(probe(&gate, 0, 0), Probe::Limit, "with three flows the share is a third");
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![1]));
    assert!(offer(&mut gate, pkt(1, 0)));
    assert!(!offer(&mut gate, pkt(1, 1)));
    // Flow 1 was paused behind flow 2.
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(1), vec![2]));
    assert!(offer(&mut gate, pkt(2, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![1]));
    assert!(offer(&mut gate, pkt(1, 1)));
    assert_eq!(probe(&gate, 0, 0), Probe::Limit);
}

#[test]
fn round_robin_resumes_the_flow_with_the_fewest_packets_in_the_buffer_first() {
    let qdisc = FqCodel::new(fq_codel::Config { limit: 4, ..fq_codel::Config::default() }).unwrap();
    let config = Config { order: Order::RoundRobin, ..config() };
    let mut gate = Gate::new(config, qdisc).unwrap();
    for flow in 0..4 {
        assert!(offer(&mut gate, pkt(flow, 0)));
    }
    assert!(!offer(&mut gate, pkt(9, 0)), "paused first, without packets in the buffer");
    assert!(!offer(&mut gate, pkt(8, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![9]));
    assert!(offer(&mut gate, pkt(9, 0)) && !offer(&mut gate, pkt(9, 1)));
    assert!(!offer(&mut gate, pkt(7, 0)), "behind 9 by time, before it by packets");
    for expect in [8, 7] {
        dequeue(&mut gate, NOW);
        assert_eq!(resumed(&mut gate), [expect]);
        assert!(offer(&mut gate, pkt(expect, 0)));
    }
}

#[test]
fn priorities_have_room_by_class() {
    let children = vec![fifo(Limit::packets(1)), fifo(Limit::packets(2))];
    let mut gate = Gate::new(config(), StrictPriority::new(children).unwrap()).unwrap();
    let of = |flow, class| Pkt { class, ..pkt(flow, 0) };
    for flow in [0, 1] {
        assert!(offer(&mut gate, of(flow, 1)));
    }
    assert_eq!((probe(&gate, 2, 1), probe(&gate, 2, 7), probe(&gate, 2, 0)), {
        (Probe::Full, Probe::Full, Probe::Go)
    });
    assert!(!offer(&mut gate, of(2, 1)));
    assert!(offer(&mut gate, of(3, 0)), "the urgent class has room, whatever waits for the other");
    assert!(!offer(&mut gate, of(4, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(3), vec![4]));
    assert!(offer(&mut gate, of(4, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(4), vec![]));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![2]));
}

#[test]
fn with_one_limit_for_all_classes_the_urgent_flows_are_resumed_first() {
    let config = Config { order: Order::Priority { classes: 3 }, ..config() };
    let mut gate = Gate::new(config, fifo(Limit::packets(1))).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)));
    for (flow, class) in [(1, 2), (2, 1), (3, 9), (4, 1)] {
        assert!(!offer(&mut gate, Pkt { class, ..pkt(flow, 0) }));
    }
    for expect in [2, 4, 1, 3] {
        dequeue(&mut gate, NOW);
        assert_eq!(resumed(&mut gate), [expect]);
        assert!(offer(&mut gate, pkt(expect, 0)));
    }
}

#[test]
fn weighted_classes_have_separate_room() {
    let children = vec![(1, fifo(Limit::packets(1))), (2, fifo(Limit::packets(1)))];
    let mut gate =
        Gate::new(config(), Drr::new(drr::Config::default(), children).unwrap()).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)));
    assert_eq!((probe(&gate, 1, 0), probe(&gate, 1, 1)), (Probe::Full, Probe::Go));
}

#[test]
fn a_token_bucket_has_the_room_of_its_child() {
    // A frame of 1514 bytes takes 12.112 ms.
    let rate = Some(Rate::from_mbps(1));
    let burst = token_bucket::Burst::Bytes(Bytes(0));
    let shaper = token_bucket::Config { rate, burst, ..Default::default() };
    let qdisc = TokenBucket::new(shaper, fifo(Limit::packets(2)));
    let mut gate = Gate::new(config(), qdisc).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)) && offer(&mut gate, pkt(1, 0)));
    assert_eq!(probe(&gate, 2, 0), Probe::Full);
    assert_eq!(dequeue(&mut gate, NOW), Some(0));
    assert_eq!(probe(&gate, 2, 0), Probe::Go, "no credit, but room");
    assert!(offer(&mut gate, pkt(2, 0)) && !offer(&mut gate, pkt(3, 0)));
    let due = NOW + Nanos::from_micros(12_112);
    assert_eq!(gate.next_event(NOW), Some(due));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (None, vec![]));
    assert_eq!((dequeue(&mut gate, due), resumed(&mut gate)), (Some(1), vec![3]));
    gate.qdisc_mut().set_rate(due, None);
    assert_eq!(gate.next_event(due), Some(due));
}

#[test]
fn paced_flows_are_resumed_in_order_of_their_times_and_not_early() {
    let order = Order::EarliestTime { granularity: Nanos(100), buckets: 64 };
    let mut gate = Gate::new(Config { order, ..config() }, fifo(Limit::packets(1))).unwrap();
    for (flow, at) in [(0, 5000), (1, 300), (2, 1200)] {
        assert!(gate.pause_until(NOW, FlowId(flow), 0, NOW + Nanos(at)));
    }
    assert!(resumed(&mut gate).is_empty());
    assert_eq!(gate.next_event(NOW), Some(NOW + Nanos(300)));
    let at = |gate: &mut Gate<Pkt, Fifo<Pkt>>, ns| {
        gate.resume(NOW + Nanos(ns)).map(|flow| flow.0).collect::<Vec<_>>()
    };
    assert_eq!(at(&mut gate, 299), []);
    assert_eq!(at(&mut gate, 300), [1]);
    assert!(offer(&mut gate, pkt(1, 0)));
    // Flow 2 is due, but there is no room: the packet's departure is next.
    assert_eq!(at(&mut gate, 2000), []);
    assert_eq!(gate.next_event(NOW + Nanos(2000)), Some(NOW + Nanos(2000)));
    assert_eq!(dequeue(&mut gate, NOW + Nanos(2000)), Some(1));
    assert_eq!(at(&mut gate, 2000), [2]);
    gate.remove(FlowId(0));
    assert_eq!(gate.next_event(NOW + Nanos(2000)), None);
}

#[test]
fn an_order_by_time_refuses_a_buffer_with_classes() {
    let order = Order::EarliestTime { granularity: Nanos(100), buckets: 64 };
    let children = vec![fifo(Limit::packets(1)), fifo(Limit::packets(2))];
    let qdisc = StrictPriority::new(children).unwrap();
    assert!(Gate::new(Config { order, ..config() }, qdisc).is_err());
}

#[test]
fn an_unused_turn_goes_to_the_next_flow() {
    let mut gate = Gate::new(config(), fifo(Limit::packets(1))).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)));
    for flow in 1..4 {
        assert!(!offer(&mut gate, pkt(flow, 0)));
    }
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(0), vec![1]));
    gate.idle(FlowId(1));
    assert_eq!(resumed(&mut gate), [2]);
    gate.remove(FlowId(2));
    assert_eq!(resumed(&mut gate), [3]);
    assert!(!gate.is_paused(FlowId(3)) && resumed(&mut gate).is_empty());
}

#[test]
fn a_packet_dropped_by_the_qdisc_frees_its_slot() {
    let limit = Limit { time: Some(Nanos(10)), ..Limit::packets(2) };
    let mut gate = Gate::new(config(), fifo(limit)).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)) && offer(&mut gate, pkt(1, 0)));
    assert!(!offer(&mut gate, pkt(2, 0)));
    let mut dropped = Vec::new();
    let late = NOW + Nanos(11);
    let mut sink = |packet: Pkt, reason| dropped.push((packet.flow, reason));
    assert!(gate.dequeue(late, &mut sink).is_none());
    assert_eq!(dropped, [(0, DropReason::TimeLimit), (1, DropReason::TimeLimit)]);
    assert_eq!((gate.in_buffer(FlowId(0)), resumed(&mut gate)), (0, vec![2]));
}

#[test]
fn flows_that_wait_for_the_old_buffer_wait_for_the_new_one() {
    let mut gate = Gate::new(config(), fifo(Limit::packets(2))).unwrap();
    assert!(offer(&mut gate, pkt(0, 0)) && offer(&mut gate, pkt(0, 1)));
    assert!(!offer(&mut gate, pkt(0, 2)), "held at its limit");
    assert!(!offer(&mut gate, pkt(1, 0)), "queued for room");
    let other = fifo(Limit::bytes(Bytes(1000)));
    assert!(gate.replace(NOW, other).is_err(), "a largest packet does not fit");
    assert!(resumed(&mut gate).is_empty() && gate.in_buffer(FlowId(0)) == 2);
    let old = gate.replace(NOW, fifo(Limit::packets(1))).unwrap();
    assert_eq!((old.backlog().packets, gate.in_buffer(FlowId(0))), (2, 0));
    assert_eq!(resumed(&mut gate), [1]);
    assert!(offer(&mut gate, pkt(1, 0)));
    assert_eq!((dequeue(&mut gate, NOW), resumed(&mut gate)), (Some(1), vec![0]));
}

#[test]
fn settings_out_of_range_are_refused() {
    let gate = |config| Gate::new(config, fifo(Limit::packets(1)));
    for bad in [
        Config { flows: 0, ..config() },
        Config { in_buffer: 0, ..config() },
        Config { turn: 0, ..config() },
        Config { largest: Bytes(0), ..config() },
        Config { hysteresis: Hysteresis::Packets(0), ..config() },
        Config { hysteresis: Hysteresis::OneIn(0), ..config() },
        Config { order: Order::Priority { classes: 0 }, ..config() },
        Config { order: Order::Priority { classes: 257 }, ..config() },
        Config { order: Order::EarliestTime { granularity: Nanos(0), buckets: 1 }, ..config() },
    ] {
        assert!(gate(bad).is_err(), "{bad:?}");
    }
    let mut full = fifo(Limit::packets(1));
    full.enqueue(NOW, pkt(0, 0), &mut no_drop);
    assert!(Gate::new(config(), full).is_err(), "the gate did not enqueue its packets");
}
