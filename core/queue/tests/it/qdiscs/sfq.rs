use std::collections::BTreeSet;

use forebay_queue::{DropReason, Qdisc, Sfq, sfq};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{Pkt, dequeue, drain, enqueue, frame};

const ELEPHANT: u32 = 0;

fn queue(config: sfq::Config) -> Sfq<Pkt> {
    Sfq::new(config).unwrap()
}

fn unperturbed() -> sfq::Config {
    sfq::Config { perturb: None, ..sfq::Config::default() }
}

/// One large flow (the elephant) keeps the queue full while fifty small flows (the mice) send a
/// packet at a time. All drops are of the elephant, and a mouse waits for at most two packets.
#[test]
fn all_drops_are_of_the_elephant_and_mice_hardly_wait() {
    let mut q = queue(sfq::Config { limit: 127, ..unperturbed() });
    let (mut id, mut waits) = (0, Vec::new());
    for round in 0..2000_u64 {
        let now = Nanos::from_micros(round * 126);
        for flow in [ELEPHANT, ELEPHANT, 1 + (round % 50) as u32] {
            // A mouse sends in every third round.
            if flow == ELEPHANT || round.is_multiple_of(3) {
                for (packet, reason) in enqueue(&mut q, now, frame(id, flow)) {
                    assert_eq!((packet.flow, reason), (ELEPHANT, DropReason::PacketLimit));
                }
                if flow != ELEPHANT {
                    waits.push((id, round));
                }
                id += 1;
            }
        }
        let (sent, _) = dequeue(&mut q, now);
        let sent = sent.unwrap();
        if let Some(at) = waits.iter().position(|(mouse, _)| *mouse == sent.id) {
            let (_, came) = waits.swap_remove(at);
            assert!(round - came <= 2, "a mouse waited for {} packets", round - came);
        }
    }
    assert_eq!(q.backlog().packets, 126, "the elephant fills the rest");
    assert!(waits.len() <= 1, "mice still waiting: {waits:?}");
}

#[test]
fn the_longest_flow_loses_packets() {
    let mut q = queue(sfq::Config { limit: 60, ..unperturbed() });
    for (flow, n) in [(1, 10), (2, 30), (3, 20)] {
        for id in 0..n {
            assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(id, flow)), []);
        }
    }
    // Flow 2 shrinks to the length of flow 3, then the two take turns.
    let victims: Vec<_> = (0..14)
        .flat_map(|id| enqueue(&mut q, Nanos::ZERO, frame(100 + id, 9)))
        .map(|(p, _)| p.flow)
        .collect();
    assert_eq!(victims[..10], [2; 10]);
    assert_eq!(victims[10..].iter().filter(|&&flow| flow == 2).count(), 2);
    assert_eq!(victims[10..].iter().filter(|&&flow| flow == 3).count(), 2);
}

#[test]
fn the_newest_or_the_oldest_is_dropped() {
    for (head_drop, left) in [(false, [0, 1, 2]), (true, [1, 2, 3])] {
        let mut q = queue(sfq::Config { depth: 3, head_drop, ..unperturbed() });
        let drops: Vec<_> =
            (0..4).flat_map(|id| enqueue(&mut q, Nanos::ZERO, frame(id, 0))).collect();
        assert_eq!(
            drops.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(),
            [DropReason::FlowLimit]
        );
        assert_eq!(drain(&mut q, Nanos::ZERO).iter().map(|p| p.id).collect::<Vec<_>>(), left);
    }
}

/// Linux limits a flow to 127 packets and the number of flows to 128, whatever is configured.
#[test]
fn the_limits_of_linux_apply() {
    let mut q = queue(sfq::Config { divisor: 1 << 16, ..sfq::Config::linux(1_000_000) });
    let count = |drops: Vec<(Pkt, DropReason)>| drops.len();
    let one_flow: usize =
        (0..200).map(|id| count(enqueue(&mut q, Nanos::ZERO, frame(id, 0)))).sum();
    assert_eq!(one_flow, 200 - 127);
    let flows = (1..200).map(|flow| enqueue(&mut q, Nanos::ZERO, frame(0, flow * 0x0100_0000)));
    let refused: usize = flows.map(count).sum();
    assert!(refused >= 199 - 127, "{refused} flows refused");
    let mut q = queue(sfq::Config::linux(127));
    let drops = (0..400).map(|id| count(enqueue(&mut q, Nanos::ZERO, frame(id, id as u32 % 3))));
    assert_eq!(drops.sum::<usize>(), 400 - 127);
}

#[test]
fn a_flow_past_the_limit_of_flows_is_refused() {
    let mut q = queue(sfq::Config { flows: 4, divisor: 1 << 16, ..unperturbed() });
    for flow in 0..4 {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(0, flow)), []);
    }
    assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(1, 3)), [], "an open flow may grow");
    assert_eq!(
        enqueue(&mut q, Nanos::ZERO, frame(0, 4)),
        [(frame(0, 4), DropReason::FlowTableFull)]
    );
    assert!(dequeue(&mut q, Nanos::ZERO).0.is_some());
    assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(0, 4)), [], "a flow has left");
}

#[test]
fn flows_take_turns_by_bytes() {
    let mut q = queue(unperturbed());
    for id in 0..300 {
        let len = if id % 3 == 0 { 1514 } else { 100 };
        enqueue(&mut q, Nanos::ZERO, Pkt { len, ..frame(id, len as u32) });
    }
    let mut bytes = [0, 0];
    for _ in 0..100 {
        let packet = dequeue(&mut q, Nanos::ZERO).0.unwrap();
        bytes[usize::from(packet.len == 100)] += packet.len;
    }
    assert!(u64::abs_diff(bytes[0], bytes[1]) <= 1514 + 1514 + 100, "{bytes:?}");
}

/// Returns the flows of `0..flows` whose bucket is already taken, which a depth of one refuses.
fn shares(q: &mut Sfq<Pkt>, flows: u32, now: Nanos) -> BTreeSet<u32> {
    // Scatters the hashes as a classifier does; hashes at equal distances would hardly collide.
    let hash = |flow: u32| flow.wrapping_mul(0x9e37_79b1).wrapping_pow(3);
    let refused = (0..flows).flat_map(|flow| enqueue(q, now, frame(0, hash(flow))));
    let refused = refused.map(|(packet, _)| packet.flow).collect();
    drain(q, now);
    refused
}

/// With a depth of one, a flow whose bucket is taken is refused. After a change of the hash these
/// are other flows.
#[test]
fn perturbation_separates_flows_that_shared_a_bucket() {
    let second = Nanos::from_secs(1);
    let mut q = queue(sfq::Config { depth: 1, perturb: Some(second), ..sfq::Config::default() });
    let before = shares(&mut q, 300, Nanos::ZERO);
    assert!(before.len() > 10, "{} of 300 flows in 1024 buckets share one", before.len());
    assert_eq!(before, shares(&mut q, 300, Nanos(second.0 - 1)), "not due yet");
    dequeue(&mut q, second);
    let after = shares(&mut q, 300, second);
    assert!(before.intersection(&after).count() < before.len() / 2, "{before:?} {after:?}");
}

#[test]
fn order_and_shares_survive_perturbation() {
    let ms = Nanos::from_millis(1);
    let mut q = queue(sfq::Config { perturb: Some(ms), ..sfq::Config::default() });
    for id in 0..1000 {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(id, (id % 10) as u32)), []);
    }
    let mut next: Vec<_> = (0..10).collect();
    for step in 0..1000 {
        let (sent, drops) = dequeue(&mut q, ms * step);
        assert_eq!(drops, [], "no packet is dropped");
        let packet = sent.unwrap();
        let flow = packet.flow as usize;
        assert_eq!(packet.id, next[flow], "flow {flow}");
        next[flow] += 10;
    }
}

/// A flow that became empty in debt or with credit left has a full quantum when it is busy again.
#[test]
fn a_flow_that_is_busy_again_starts_with_a_full_quantum() {
    for len in [9000, 40] {
        let mut q = queue(unperturbed());
        enqueue(&mut q, Nanos::ZERO, Pkt { len, ..frame(0, 1) });
        assert_eq!(drain(&mut q, Nanos::ZERO).len(), 1);
        for id in 1..3 {
            // One byte more than half a quantum, so that a turn is two packets.
            enqueue(&mut q, Nanos::ZERO, Pkt { len: 758, ..frame(id, 1) });
            enqueue(&mut q, Nanos::ZERO, Pkt { len: 758, ..frame(id, 2) });
        }
        enqueue(&mut q, Nanos::ZERO, frame(3, 1));
        let order: Vec<_> = drain(&mut q, Nanos::ZERO).iter().map(|p| p.flow).collect();
        assert_eq!(order, [1, 1, 2, 2, 1], "after {len} bytes");
    }
}

/// The debt of a packet far larger than the quantum is paid off in later rounds.
#[test]
fn the_debt_of_large_packets_is_paid_off() {
    let mut q = queue(sfq::Config { quantum: Bytes(256), ..unperturbed() });
    for id in 0..100 {
        enqueue(&mut q, Nanos::ZERO, Pkt { len: 65_000, ..frame(id, 1) });
        enqueue(&mut q, Nanos::ZERO, frame(id, 2));
    }
    let order = drain(&mut q, Nanos::ZERO);
    let between: Vec<_> = order.split(|p| p.flow == 1).map(<[Pkt]>::len).collect();
    // 65 000 / 1514 = 42.9 full frames for each large one while both wait.
    assert_eq!(between[0], 0);
    assert!(between[1..3].iter().all(|n| (42..=44).contains(n)), "{between:?}");
}
