use forebay_queue::{DropReason, Ecn, FqCodel, fq_codel};
use forebay_units::{Bytes, Nanos};

use crate::packet::{Pkt, dequeue, drain, enqueue, frame};

fn queue(config: fq_codel::Config) -> FqCodel<Pkt> {
    FqCodel::new(config).unwrap()
}

fn flows_of(packets: &[Pkt]) -> Vec<u32> {
    packets.iter().map(|packet| packet.flow).collect()
}

/// Flows 1 and 2 have had their first turn; 3 comes new, goes first, and then takes its turns.
#[test]
fn a_new_flow_goes_first_once() {
    let mut q = queue(fq_codel::Config::default());
    for id in 0..4 {
        enqueue(&mut q, Nanos::ZERO, frame(id, 1));
        enqueue(&mut q, Nanos::ZERO, frame(id, 2));
    }
    for flow in [1, 2] {
        assert_eq!(dequeue(&mut q, Nanos::ZERO).0.unwrap().flow, flow);
    }
    for id in 0..3 {
        enqueue(&mut q, Nanos::ZERO, frame(id, 3));
    }
    assert_eq!(flows_of(&drain(&mut q, Nanos::ZERO)), [3, 1, 2, 3, 1, 2, 3, 1, 2]);
}

/// A flow that empties while new cannot come back as new before the old ones had their turn.
#[test]
fn emptying_does_not_buy_priority() {
    let mut q = queue(fq_codel::Config::default());
    for id in 0..3 {
        enqueue(&mut q, Nanos::ZERO, frame(id, 1));
    }
    assert_eq!(dequeue(&mut q, Nanos::ZERO).0.unwrap().flow, 1);
    let mut order = Vec::new();
    for id in 0..4 {
        enqueue(&mut q, Nanos::ZERO, Pkt { len: 100, ..frame(id, 2) });
        order.push(dequeue(&mut q, Nanos::ZERO).0.unwrap().flow);
    }
    // With packets this small all four fit one turn; the fifth is behind the old flow.
    assert_eq!(order, [2, 2, 2, 2]);
    assert_eq!(dequeue(&mut q, Nanos::ZERO).0.unwrap().flow, 1);
    enqueue(&mut q, Nanos::ZERO, frame(9, 2));
    assert_eq!(flows_of(&drain(&mut q, Nanos::ZERO)), [2, 1]);
}

/// RFC 8290 section 4.1: half of the longest queue's bytes, at most 64 packets, from its head.
#[test]
fn overload_drops_a_batch_from_the_longest() {
    for (long, dropped) in [(40, 20), (41, 21), (300, 64)] {
        let mut q = queue(fq_codel::Config { limit: long + 10, ..fq_codel::Config::default() });
        for id in 0..10 {
            enqueue(&mut q, Nanos::ZERO, frame(id, 2));
        }
        for id in 0..u64::from(long) {
            assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(id, 1)), []);
        }
        let drops = enqueue(&mut q, Nanos::ZERO, frame(0, 3));
        let expected: Vec<_> =
            (0..dropped).map(|id| (frame(id, 1), DropReason::PacketLimit)).collect();
        assert_eq!(drops, expected, "of {long}");
    }
}

#[test]
fn bytes_are_limited_too() {
    let memory_limit = Bytes(10 * 1514);
    let mut q = queue(fq_codel::Config { memory_limit, ..fq_codel::Config::default() });
    for id in 0..10 {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(id, 1)), []);
    }
    let drops = enqueue(&mut q, Nanos::ZERO, frame(0, 2));
    assert_eq!(drops.len(), 5);
    assert!(drops.iter().all(|(p, reason)| p.flow == 1 && *reason == DropReason::ByteLimit));
    let huge = Pkt { len: memory_limit.0 + 1, ..frame(0, 3) };
    assert_eq!(enqueue(&mut q, Nanos::ZERO, huge.clone()), [(huge, DropReason::ByteLimit)]);
}

/// No queue is longer than a packet: the one whose turn is next loses its own.
#[test]
fn single_packets_are_dropped_in_turn() {
    let mut q = queue(fq_codel::Config { limit: 3, ..fq_codel::Config::default() });
    for flow in 1..=3 {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(0, flow)), []);
    }
    for flow in 4..=20 {
        let drops = enqueue(&mut q, Nanos::ZERO, frame(0, flow));
        assert_eq!(drops, [(frame(0, flow - 3), DropReason::PacketLimit)]);
    }
    assert_eq!(flows_of(&drain(&mut q, Nanos::ZERO)), [18, 19, 20]);
}

/// A flow that keeps a standing queue is marked; one that sends less than its share is not, and
/// does not wait.
#[test]
fn codel_signals_the_flow_that_builds_the_queue() {
    let mut q = queue(fq_codel::Config::default());
    let ect = |id, flow| Pkt { ecn: Ecn::Ect0, ..frame(id, flow) };
    for id in 0..100 {
        enqueue(&mut q, Nanos::ZERO, ect(id, 1));
    }
    let mut marks = [0; 3];
    for ms in 1..1000 {
        let now = Nanos::from_millis(ms);
        let flow = if ms % 4 == 0 { 2 } else { 1 };
        assert_eq!(enqueue(&mut q, now, ect(100 + ms, flow)), []);
        let (sent, drops) = dequeue(&mut q, now);
        assert_eq!(drops, [], "what can be marked is not dropped");
        let sent = sent.unwrap();
        assert!(flow == 1 || sent.flow == 2, "the sparse flow goes at once");
        marks[sent.flow as usize] += usize::from(sent.ecn == Ecn::Ce);
    }
    assert!(marks[1] > 10, "{marks:?}");
    assert_eq!(marks[2], 0);
}
