use forebay_queue::{DropReason, Ecn, Fifo, Limit, fifo};
use forebay_units::Rate;

use proptest::prelude::*;

use super::*;

const DELAY: Nanos = Nanos(1_000_000);

fn link(capacity: Capacity, loss: Loss) -> Link {
    jittery(capacity, loss, Jitter::default())
}

fn jittery(capacity: Capacity, loss: Loss, jitter: Jitter) -> Link {
    let limit = Limit::packets(2);
    let queue: Queue = Box::new(Fifo::new(fifo::Config { limit }).unwrap());
    let config = LinkConfig {
        capacity,
        delay: DELAY,
        queue: Some(queue),
        loss,
        jitter,
        ..LinkConfig::default()
    };
    Link::new(config, Random::new(1, 1)).unwrap()
}

fn packet(id: u32) -> Queued {
    Queued {
        id,
        flow_hash: 0,
        len: 1000,
        ecn: Ecn::NotEct,
        class: 0,
        marked: false,
        arrived: Nanos::ZERO,
    }
}

/// At 8 Mbit/s a packet of 1000 B takes a millisecond.
#[test]
fn packets_leave_one_after_another() {
    let mut dropped = Vec::new();
    let mut drops = |p: Queued, r: DropReason| dropped.push((p.id, r));
    let mut link = link(Capacity::Constant(Rate::from_mbps(8)), Loss::None);
    assert!(link.enter(Nanos(0), packet(0), &mut drops).is_none());
    let first = link.serve(Nanos(0), &mut drops).unwrap();
    assert_eq!(first.arrival, Some(Nanos(2_000_000)));
    for id in 1..4 {
        link.enter(Nanos(10), packet(id), &mut drops);
    }
    assert!(link.serve(Nanos(10), &mut drops).is_none());
    assert_eq!(link.next_event(Nanos(10)), Some(Nanos(1_000_000)));
    let second = link.serve(Nanos(1_000_000), &mut drops).unwrap();
    assert_eq!((second.packet.id, second.arrival), (1, Some(Nanos(3_000_000))));
    assert_eq!(dropped, [(3, DropReason::PacketLimit)]);
}

#[test]
fn bursts_of_loss_have_the_configured_length_and_frequency() {
    let mut link =
        link(Capacity::Constant(Rate::from_mbps(8)), Loss::Burst { begin: 0.01, end: 0.25 });
    let lost: Vec<_> = (0..200_000).map(|_| link.propagation.is_lost()).collect();
    let total = lost.iter().filter(|l| **l).count();
    let bursts = lost.windows(2).filter(|w| w[1] && !w[0]).count();
    // The state is bad for 0.01 / 0.26 of the packets, and a burst has four packets.
    assert!((7_000..8_400).contains(&total), "{total}");
    let mean = total as f64 / bursts as f64;
    assert!((3.6..4.4).contains(&mean), "{mean}");
}

fn capacities() -> impl Strategy<Value = Capacity> {
    let mbps = (1u64..200).prop_map(Rate::from_mbps);
    let steps = prop::collection::vec((1u64..20, 0u64..50), 0..8).prop_map(|steps| {
        let mut time = 0;
        let step = |(gap, mbps)| {
            time += gap;
            (Nanos::from_millis(time), Rate::from_mbps(mbps))
        };
        let mut steps: Vec<_> = steps.into_iter().map(step).collect();
        steps.push((Nanos::from_secs(1), Rate::from_mbps(9)));
        Capacity::Steps(steps)
    });
    let trace = prop::collection::vec(0u32..50, 1..60).prop_map(|mut stamps| {
        stamps.push(50);
        stamps.sort_unstable();
        let text: Vec<_> = stamps.iter().map(u32::to_string).collect();
        Capacity::Trace(Trace::parse("t", &text.join("\n")).unwrap())
    });
    prop_oneof![mbps.prop_map(Capacity::Constant), steps, trace]
}

/// The packets that left, with the times at which they left the queue and arrived, and the dropped
/// ones.
struct Passed {
    left: Vec<(Queued, Nanos, Option<Nanos>)>,
    dropped: Vec<u32>,
}

/// Passes packets with the given gaps and lengths over a link.
fn pass(link: &mut Link, packets: &[(u64, u16)]) -> Passed {
    let mut passed = Passed { left: Vec::new(), dropped: Vec::new() };
    let mut now = Nanos::ZERO;
    let mut arrivals = (0..).zip(packets);
    let mut next = arrivals.next();
    let mut due = None;
    loop {
        let arrival = next.map(|(_, (gap, _))| now.saturating_add(Nanos(*gap)));
        let mut drops = |p: Queued, _: DropReason| passed.dropped.push(p.id);
        match (arrival, due) {
            (Some(time), due) if due.is_none_or(|d| time < d) => {
                now = time;
                let (id, (_, len)) = next.unwrap();
                next = arrivals.next();
                let packet = Queued { len: *len, arrived: now, ..packet(id) };
                assert!(link.enter(now, packet, &mut drops).is_none());
            }
            (_, Some(time)) => {
                // The gap of the next packet counts from here on.
                assert!(time >= now, "the link asks to be served in the past");
                now = time;
            }
            _ => return passed,
        }
        while let Some(departure) = link.serve(now, &mut drops) {
            passed.left.push((departure.packet, now, departure.arrival));
        }
        due = link.next_event(now);
    }
}

proptest! {
    #[test]
    fn every_packet_leaves_once_and_in_order(
        capacity in capacities(),
        up_to in prop_oneof![Just(0u64), 1u64..5_000_000],
        packets in prop::collection::vec((0u64..2_000_000, 60u16..=1514), 1..200),
    ) {
        let jitter = Jitter { up_to: Nanos(up_to), reorders: false };
        let mut link = jittery(capacity, Loss::Random(0.1), jitter);
        let passed = pass(&mut link, &packets);
        // Every packet left or was dropped once.
        let mut ids: Vec<_> = passed.left.iter().map(|l| l.0.id).chain(passed.dropped).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..packets.len() as u32).collect::<Vec<_>>());
        let arrived = passed.left.iter().filter_map(|(p, left, at)| at.map(|at| (p, left, at)));
        let arrived: Vec<_> = arrived.collect();
        prop_assert!(arrived.is_sorted_by_key(|(_, _, at)| *at), "none overtakes another");
        prop_assert!(arrived.is_sorted_by_key(|(p, ..)| p.id));
        for (packet, left, at) in &arrived {
            prop_assert!(packet.arrived <= **left && **left + DELAY <= *at);
        }
        let c = link.counters;
        prop_assert_eq!(c.received, packets.len() as u64);
        prop_assert_eq!(c.lost as usize, passed.left.len() - arrived.len());
        // The test does not count drops or arrivals, so both are still inside.
        prop_assert_eq!(c.inside, c.received - c.lost);
    }

    #[test]
    fn a_link_is_never_faster_than_its_rate(
        rate in (1u64..200).prop_map(Rate::from_mbps),
        packets in prop::collection::vec((0u64..300_000, 60u16..=1514), 1..200),
    ) {
        let mut link = link(Capacity::Constant(rate), Loss::None);
        let left = pass(&mut link, &packets).left;
        for (i, (_, start, _)) in left.iter().enumerate() {
            let mut bytes = 0;
            for (packet, _, at) in &left[i..] {
                bytes += u64::from(packet.len);
                prop_assert!(at.unwrap() - *start >= rate.time_for(Bytes(bytes)) + DELAY);
            }
        }
    }

    #[test]
    fn the_loss_rate_is_as_configured(p in 0.0..0.9f64) {
        let mut link = link(Capacity::Unlimited, Loss::Random(p));
        let lost = (0..20_000).filter(|_| link.propagation.is_lost()).count() as f64;
        // Five standard deviations.
        let sigma = (20_000.0 * p * (1.0 - p)).sqrt();
        prop_assert!((lost - 20_000.0 * p).abs() <= 5.0 * sigma + 1.0, "{lost} for {p}");
    }
}
