use forebay_queue::{DropReason, Ecn, FqCodel, codel, fq_codel};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{Pkt, dequeue, drain, enqueue, frame};

fn queue(config: fq_codel::Config) -> FqCodel<Pkt> {
    FqCodel::new(config).unwrap()
}

fn flows_of(packets: &[Pkt]) -> Vec<u32> {
    packets.iter().map(|packet| packet.flow).collect()
}

/// Flows 1 and 2 have had their first turn; flow 3 is new, is served first, and then takes its
/// turns.
#[test]
fn a_new_flow_is_served_first_once() {
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

/// A new flow that becomes empty takes its next turn behind the old ones, even if it has packets
/// again before.
#[test]
fn a_flow_that_becomes_empty_does_not_gain_priority() {
    let mut q = queue(fq_codel::Config::default());
    for id in 0..4 {
        (1..=3).for_each(|flow| drop(enqueue(&mut q, Nanos::ZERO, frame(id, flow))));
    }
    let mut next = |packet: Option<Pkt>| {
        packet.into_iter().for_each(|packet| drop(enqueue(&mut q, Nanos::ZERO, packet)));
        dequeue(&mut q, Nanos::ZERO).0.unwrap().flow
    };
    let small = |id| Some(Pkt { len: 100, ..frame(id, 4) });
    assert_eq!([next(None), next(None), next(None)], [1, 2, 3], "all are new");
    assert_eq!([next(small(0)), next(small(1))], [4, 4], "both fit into its first turn");
    assert_eq!(next(None), 1, "flow 4 was found empty");
    assert_eq!([next(small(2)), next(None), next(None)], [2, 3, 4]);
}

/// Overload drops half of the longest queue's bytes, at most 64 packets, from its head (RFC 8290
/// section 4.1).
#[test]
fn overload_drops_a_batch_from_the_longest_queue() {
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
fn the_limit_in_bytes_applies() {
    let memory_limit = Bytes(10 * 1514);
    let mut q = queue(fq_codel::Config { memory_limit, ..fq_codel::Config::default() });
    for id in 0..10 {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(id, 1)), []);
    }
    let drops = enqueue(&mut q, Nanos::ZERO, frame(0, 2));
    assert_eq!(drops.len(), 5);
    assert!(drops.iter().all(|(p, reason)| p.flow == 1 && *reason == DropReason::ByteLimit));
    for len in [memory_limit.0 + 1, (1 << 32) + 1] {
        let huge = Pkt { len, ..frame(0, 3) };
        assert_eq!(enqueue(&mut q, Nanos::ZERO, huge.clone()), [(huge, DropReason::ByteLimit)]);
    }
}

/// If no queue has more than one packet, the queue next in turn loses its packet.
#[test]
fn single_packets_are_dropped_in_order_of_turns() {
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

/// CoDel marks a flow with a standing queue. A flow that sends less than its share is not marked
/// and does not wait.
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
        assert_eq!(drops, [], "ECN-capable packets are not dropped");
        let sent = sent.unwrap();
        assert!(flow == 1 || sent.flow == 2, "the sparse flow is served at once");
        marks[sent.flow as usize] += usize::from(sent.ecn == Ecn::Ce);
    }
    assert!(marks[1] > 10, "{marks:?}");
    assert_eq!(marks[2], 0);
}

/// Fifty flows with a packet each wait 50 ms for a turn. No queue holds more than an MTU, but
/// together they are a standing queue, and CoDel marks them.
#[test]
fn many_short_queues_are_a_standing_queue() {
    let mut q = queue(fq_codel::Config::default());
    let ect = |id, flow| Pkt { ecn: Ecn::Ect0, ..frame(id, flow) };
    (0..50).for_each(|flow| drop(enqueue(&mut q, Nanos::ZERO, ect(0, flow))));
    let mut marked = std::collections::BTreeSet::new();
    for ms in 1..500 {
        let sent = dequeue(&mut q, Nanos::from_millis(ms)).0.unwrap();
        enqueue(&mut q, Nanos::from_millis(ms), ect(ms, sent.flow));
        if sent.ecn == Ecn::Ce {
            marked.insert(sent.flow);
        }
    }
    assert_eq!(marked.len(), 50, "{marked:?}");
}

/// The drops of a batch count as drops of CoDel, so its first gap is that of the 65th drop.
#[test]
fn a_batch_of_drops_shortens_the_gaps_of_codel() {
    for limit in [10_000, 300] {
        let mut q = queue(fq_codel::Config { limit, ..fq_codel::Config::default() });
        let mut dropped = 0;
        for id in 0..301 {
            dropped += enqueue(&mut q, Nanos::ZERO, frame(id, 1)).len();
        }
        assert_eq!(dropped, if limit == 300 { 64 } else { 0 });
        let mut times = Vec::new();
        for ms in 10..=210 {
            let (sent, drops) = dequeue(&mut q, Nanos::from_millis(ms));
            assert!(sent.is_some());
            times.extend(drops.iter().map(|_| ms));
        }
        // Above target from 10 ms on: the first drop is due at 110 ms, the next 12.5 ms
        // (100 ms / sqrt(64)) later.
        assert_eq!(times[..2], if limit == 300 { [110, 123] } else { [110, 210] });
    }
}

/// The step for L4S marks only ECT(1); the control law handles classic ECN.
#[test]
fn the_l4s_step_marks_ect1_only() {
    let codel = codel::Params {
        ecn: true,
        l4s_threshold: Some(Nanos::from_millis(1)),
        ..codel::Params::default()
    };
    let mut q = queue(fq_codel::Config { codel, ..fq_codel::Config::default() });
    for (flow, ecn) in [(1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::NotEct)] {
        enqueue(&mut q, Nanos::ZERO, Pkt { ecn, ..frame(0, flow) });
        enqueue(&mut q, Nanos::ZERO, Pkt { ecn, ..frame(1, flow) });
    }
    let ecn = |q: &mut FqCodel<Pkt>, at| [(); 3].map(|()| dequeue(q, at).0.unwrap().ecn);
    assert_eq!(ecn(&mut q, Nanos::from_millis(1)), [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct]);
    assert_eq!(ecn(&mut q, Nanos(1_000_001)), [Ecn::Ce, Ecn::Ect0, Ecn::NotEct]);
}
