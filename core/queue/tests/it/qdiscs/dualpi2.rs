use forebay_queue::dualpi2::{
    Base, BurstLimit, Config, CurvyRed, Input, Ramp, Saturation, Schedule,
};
use forebay_queue::{DropReason, DualPi2, Ecn, Marking, Qdisc, pi2};
use forebay_units::{Bytes, Nanos, Rate};

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};
use crate::qdiscs::plant::{Kind, Measured, Plant, total};

const MS: Nanos = Nanos::from_millis(1);
const SECOND: Nanos = Nanos::from_secs(1);

fn packet(id: u64, ecn: Ecn) -> Pkt {
    Pkt { ecn, ..frame(id, 0) }
}

/// Returns a queue whose base probability is `base` for the second that begins at 1 s: a single
/// update with a gain of ten times `base`, at a delay 100 ms above target.
fn primed(base: f64, config: Config) -> DualPi2<Pkt> {
    let params = pi2::Params { target: MS * 15, tupdate: SECOND, alpha: 10.0 * base, beta: 0.0 };
    let mut q = DualPi2::new(Config { base: Base::Pi2(params), ..config }).unwrap();
    // Starts the clock.
    assert_eq!(dequeue(&mut q, Nanos::ZERO).0, None);
    enqueue(&mut q, MS * 885, packet(0, Ecn::NotEct));
    let (sent, drops) = dequeue(&mut q, SECOND);
    assert!(sent.is_some() && drops.is_empty(), "one packet alone is exempt");
    assert!((q.probability() - base).abs() < 1e-9, "{}", q.probability());
    q
}

/// Passes a thousand packets of a kind through a primed queue at one instant. Returns the numbers
/// of marks and drops, and the reason of the drops.
fn thousand(base: f64, config: Config, ecn: Ecn, class: u8) -> (usize, usize, Option<DropReason>) {
    let mut q = primed(base, config);
    for id in 0..1000 {
        assert_eq!(enqueue(&mut q, SECOND, Pkt { class, ..packet(id, ecn) }), []);
    }
    let (mut marks, mut drops) = (0, Vec::new());
    loop {
        let (sent, dropped) = dequeue(&mut q, SECOND);
        drops.extend(dropped.iter().map(|(_, reason)| *reason));
        let Some(sent) = sent else { break };
        marks += usize::from(ecn != Ecn::Ce && sent.ecn == Ecn::Ce);
    }
    assert!(drops.windows(2).all(|pair| pair[0] == pair[1]), "{drops:?}");
    (marks, drops.len(), drops.first().copied())
}

/// Returns a configuration that sends class 1 to the L queue and class 2 to the C queue.
fn by_class() -> Config {
    Config { low_latency_class: Some(1), classic_class: Some(2), ..Config::rfc9332() }
}

fn near(n: usize, expected: usize) -> bool {
    // One signal may still be due, and the last packet is exempt.
    (expected.saturating_sub(2)..=expected).contains(&n)
}

/// At p' = 0.2 the probability is 0.4 for L4S and 0.04 for classic packets in either queue (RFC
/// 9332 section 2.5.1.1).
#[test]
fn every_codepoint_gets_its_probability_in_either_queue() {
    for (class, ecn, marked, dropped) in [
        (0, Ecn::Ect1, 400, 0),
        (0, Ecn::Ce, 0, 0),
        (0, Ecn::Ect0, 40, 0),
        (0, Ecn::NotEct, 0, 40),
        (1, Ecn::Ect0, 40, 0),
        (1, Ecn::NotEct, 0, 40),
        (2, Ecn::Ect1, 400, 0),
        (2, Ecn::Ce, 0, 0),
    ] {
        let (marks, drops, reason) = thousand(0.2, by_class(), ecn, class);
        assert!(near(marks, marked) && near(drops, dropped), "{ecn:?}: {marks} {drops}");
        assert!(reason.is_none_or(|reason| reason == DropReason::Pi2));
    }
    let protected = Config { queue_protection: true, ..by_class() };
    assert_eq!(thousand(0.2, protected.clone(), Ecn::NotEct, 1), (0, 0, None));
    assert!(near(thousand(0.2, protected, Ecn::NotEct, 2).1, 40));
}

/// Of two flows with ECT(1), the one that sends bursts again and again waits in the C queue. A
/// class for the L queue is never redirected.
#[test]
fn flows_that_send_bursts_go_to_the_c_queue() {
    let limit = BurstLimit { rate: Rate::from_mbps(10), burst: MS * 2 };
    let config = Config { bursts: Some(limit), low_latency_class: Some(1), ..Config::rfc9332() };
    for (class, redirected) in [(0, true), (1, false)] {
        let mut q = DualPi2::new(config.clone()).unwrap();
        let mut id = 0;
        let mut burst = |q: &mut DualPi2<Pkt>, at: Nanos| {
            for _ in 0..4 {
                id += 1;
                let packet = Pkt { ecn: Ecn::Ect1, class, ..frame(id, 7) };
                assert_eq!(enqueue(q, at, packet), []);
            }
        };
        for n in 0..2 {
            burst(&mut q, MS * (100 * n));
            assert_eq!(q.classic_backlog().packets, 0);
            while dequeue(&mut q, MS * (100 * n)).0.is_some() {}
        }
        burst(&mut q, MS * 300);
        assert_eq!(q.classic_backlog().packets > 0, redirected, "class {class}");
        enqueue(&mut q, MS * 300, Pkt { ecn: Ecn::Ect1, class, ..frame(99, 8) });
        let before = q.classic_backlog().packets;
        assert_eq!(before + q.low_latency_backlog().packets, 5);
        assert!(q.low_latency_backlog().packets >= 1, "the other flow stays");
    }
    for wrong in [
        BurstLimit { rate: Rate::ZERO, ..limit },
        BurstLimit { burst: Nanos::ZERO, ..limit },
        BurstLimit { burst: Nanos::MAX, ..limit },
    ] {
        assert!(DualPi2::<Pkt>::new(Config { bursts: Some(wrong), ..config.clone() }).is_err());
    }
}

/// At p' = 0.6, above 1/k, 0.36 of all packets are dropped, and all remaining L4S packets are
/// marked.
#[test]
fn overload_drops_all_codepoints_alike() {
    for (class, ecn, marked, reason) in [
        (0, Ecn::Ect1, 640, DropReason::Overload),
        (0, Ecn::Ce, 0, DropReason::Overload),
        (0, Ecn::Ect0, 0, DropReason::Overload),
        (0, Ecn::NotEct, 0, DropReason::Pi2),
        (1, Ecn::Ect0, 0, DropReason::Overload),
        (1, Ecn::NotEct, 0, DropReason::Pi2),
        (2, Ecn::Ect1, 640, DropReason::Overload),
    ] {
        let (marks, drops, why) = thousand(0.6, by_class(), ecn, class);
        assert!(near(drops, 360) && why == Some(reason), "{ecn:?}: {drops} {why:?}");
        assert!(marks.abs_diff(marked) <= 3, "{ecn:?}: {marks}");
    }
    // Just below the maximum there are marks and no drops.
    assert_eq!(thousand(0.499, by_class(), Ecn::Ect1, 0).1, 0);
    let random = Config { marking: Marking::Random, ..Config::rfc9332() };
    let (_, drops, _) = thousand(0.6, random, Ecn::Ect1, 0);
    assert!((300..420).contains(&drops), "{drops}");
}

#[test]
fn delay_on_saturation_caps_the_probability() {
    let delay = Config { on_saturation: Saturation::Delay, ..Config::rfc9332() };
    let mut q = DualPi2::<Pkt>::new(delay).unwrap();
    for id in 0..2000 {
        enqueue(&mut q, Nanos::ZERO, packet(id, Ecn::Ect1));
    }
    for ms in 0..1000 {
        let (sent, drops) = dequeue(&mut q, MS * ms);
        assert!(sent.is_some() && drops.is_empty(), "at {ms} ms");
    }
    assert!((q.probability() - 0.5).abs() < 1e-12);
    assert_eq!(q.overload().episodes, 1, "the overload is recorded");
}

fn red(params: CurvyRed) -> Config {
    Config { base: Base::CurvyRed(params), ..Config::rfc9332() }
}

/// The sojourn times at the departures are 32, 33, 34 ms and so on. The average and the base
/// probability are those of RFC 9332 Figure 10, computed here by its lines 9a and 10a.
#[test]
fn curvy_red_averages_the_delays_of_departing_classic_packets() {
    let mut q = DualPi2::new(red(CurvyRed::default())).unwrap();
    for id in 0..40 {
        enqueue(&mut q, Nanos::ZERO, packet(id, Ecn::NotEct));
    }
    let mut average = 0.0;
    for ms in 32..64_u64 {
        assert!(dequeue(&mut q, MS * ms).0.is_some());
        average = 0.03125 * (ms as f64 / 1000.0) + 0.96875 * average;
        let base = q.probability();
        assert!((base - average / 0.5).abs() < 1e-12, "{ms} ms: {base}");
    }
    // (1 - (31/32)^32) of the delay, or 63.8 %, of about 48 ms.
    assert!((0.058..0.066).contains(&q.probability()));
}

/// With a weight of one the average is the delay of the departing packet. At 100 ms p' is 0.2, as
/// in the test of every codepoint above.
#[test]
fn curvy_red_gives_every_codepoint_its_probability() {
    for (ecn, marked, dropped) in
        [(Ecn::Ect1, 400, 0), (Ecn::Ce, 0, 0), (Ecn::Ect0, 40, 0), (Ecn::NotEct, 0, 40)]
    {
        // L4S packets wait for nothing: the C queue's delay drives their marks.
        let classes = Config { low_latency_class: None, classic_class: Some(2), ..by_class() };
        let base = Base::CurvyRed(CurvyRed { weight: 1.0, ..CurvyRed::default() });
        let mut q = DualPi2::new(Config { base, ..classes }).unwrap();
        for id in 0..1000 {
            enqueue(&mut q, Nanos::ZERO, Pkt { class: 2, ..packet(id, ecn) });
        }
        let (mut marks, mut drops) = (0, 0);
        loop {
            let (sent, dropped) = dequeue(&mut q, MS * 100);
            drops += dropped.len();
            let Some(sent) = sent else { break };
            marks += usize::from(ecn != Ecn::Ce && sent.ecn == Ecn::Ce);
        }
        assert!((q.probability() - 0.2).abs() < 1e-12);
        assert!(near(marks, marked) && near(drops, dropped), "{ecn:?}: {marks} {drops}");
    }
}

/// Without classic packets, the average follows the L queue's delay, and the marks that the last
/// classic packets caused end.
#[test]
fn curvy_red_forgets_classic_traffic_that_has_ended() {
    let mut q = DualPi2::new(red(CurvyRed::default())).unwrap();
    for id in 0..300 {
        enqueue(&mut q, Nanos::ZERO, packet(id, Ecn::NotEct));
    }
    while dequeue(&mut q, MS * 50).0.is_some() {}
    assert!(q.probability() > 0.09);
    let mut marks = 0;
    for ms in 51..551 {
        for id in 0..3 {
            enqueue(&mut q, MS * ms, packet(id, Ecn::Ect1));
        }
        for _ in 0..3 {
            marks += usize::from(dequeue(&mut q, MS * ms).0.unwrap().ecn == Ecn::Ce);
        }
    }
    assert!(q.probability() < 1e-9, "{}", q.probability());
    assert!((2..12).contains(&marks), "only at the beginning: {marks}");
}

/// Returns for each of `n` packets whether it comes from the L queue, while both have packets.
fn pattern(schedule: Schedule, n: usize) -> Vec<bool> {
    let mut q = DualPi2::new(Config { schedule, ..Config::rfc9332() }).unwrap();
    for id in 0..200 {
        enqueue(&mut q, Nanos::ZERO, packet(id, Ecn::Ect1));
        enqueue(&mut q, Nanos::ZERO, packet(id, Ecn::NotEct));
    }
    (0..n).map(|_| dequeue(&mut q, Nanos::ZERO).0.unwrap().ecn == Ecn::Ect1).collect()
}

#[test]
fn the_round_robin_shares_by_weight() {
    for (low_latency, classic) in [(15, 1), (9, 1), (1, 1), (1, 3)] {
        let sent = pattern(Schedule::RoundRobin { low_latency, classic }, 160);
        let of_l = sent.iter().filter(|l| **l).count() as u32;
        let expected = 160 * low_latency / (low_latency + classic);
        assert!(of_l.abs_diff(expected) <= 1, "{of_l} at {low_latency} : {classic}");
    }
    let sent = pattern(Schedule::RoundRobin { low_latency: 15, classic: 1 }, 64);
    let classic: Vec<_> = (0..64).filter(|&at| !sent[at]).collect();
    assert_eq!(classic, [15, 31, 47, 63], "fifteen before each");
}

#[test]
fn classic_packets_wait_longer_by_the_time_shift() {
    let mut q = DualPi2::new(Config::paper()).unwrap();
    enqueue(&mut q, Nanos::ZERO, packet(0, Ecn::NotEct));
    for (id, ms) in [(1, 10), (2, 30), (3, 31)] {
        enqueue(&mut q, MS * ms, packet(id, Ecn::Ect1));
    }
    let order: Vec<_> = (0..4).map(|_| dequeue(&mut q, MS * 31).0.unwrap().id).collect();
    assert_eq!(order, [1, 2, 0, 3]);
}

/// Checks the ramp from 0.8 to 1.2 ms and the step at 1 ms. Neither marks a single packet.
#[test]
fn the_native_aqm_marks_by_the_sojourn_time() {
    let marked = |config: Config, wait: u64, n: u64| {
        let mut q = DualPi2::new(config).unwrap();
        (0..n).for_each(|id| drop(enqueue(&mut q, Nanos::ZERO, packet(id, Ecn::Ect1))));
        let at = Nanos::from_micros(wait);
        (0..n).filter(|_| dequeue(&mut q, at).0.unwrap().ecn == Ecn::Ce).count()
    };
    for (wait, expected) in [(800, 0), (900, 250), (1000, 500), (1200, 1000), (5000, 1000)] {
        let n = marked(Config::rfc9332(), wait, 1000);
        assert!(near(n, expected), "{n} after {wait} us");
    }
    assert_eq!(marked(Config::paper(), 1000, 1000), 0);
    assert_eq!(marked(Config::paper(), 1001, 1000), 999, "all but the last");
    assert_eq!(marked(Config::paper(), 1001, 1), 0);
    let native = Ramp { min_packets: 0, ..Config::paper().native };
    assert_eq!(marked(Config { native, ..Config::paper() }, 1001, 1), 1);
}

/// Every packet needs the room of a full frame, and the backlog stays within the limit.
#[test]
fn the_limit_is_for_both_queues() {
    let config = Config { bytes: Some(Bytes(5 * 1514)), ..Config::rfc9332() };
    let mut q = DualPi2::new(config).unwrap();
    for (id, ecn) in [(0, Ecn::Ect1), (1, Ecn::NotEct), (2, Ecn::Ect0), (3, Ecn::Ce)] {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, packet(id, ecn)), []);
    }
    let small = Pkt { len: 100, ..packet(4, Ecn::Ect1) };
    assert_eq!(enqueue(&mut q, Nanos::ZERO, small), []);
    for len in [100, 1514, 9000] {
        let refused = Pkt { len, ..packet(5, Ecn::NotEct) };
        assert!(!q.probe(Nanos::ZERO, &refused));
        assert_eq!(
            enqueue(&mut q, Nanos::ZERO, refused.clone()),
            [(refused, DropReason::ByteLimit)]
        );
    }
    assert_eq!((q.low_latency_backlog().packets, q.classic_backlog().packets), (3, 2));
    let counters = q.classic_counters();
    assert_eq!((counters.arrived.total(), counters.presented.total()), (5, 2));
    let rate = Rate::from_mbps(40);
    assert_eq!(Config::rfc9332().for_link(rate).bytes, Some(Bytes(1_250_000)));
}

#[test]
fn intervals_report_counts_and_delays_of_each_queue() {
    let mut q = primed(0.2, Config::rfc9332());
    let first = q.end_interval(SECOND);
    assert_eq!((first.start, first.end), (Nanos::ZERO, SECOND));
    assert_eq!(first.classic.delays.mean, MS * 115);
    for id in 0..100 {
        enqueue(&mut q, SECOND, packet(id, if id % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct }));
    }
    let mut dropped = 0;
    for step in 0..100 {
        dropped += dequeue(&mut q, SECOND + Nanos::from_micros(10 * step)).1.len() as u64;
    }
    let it = q.end_interval(SECOND * 2);
    assert_eq!((it.start, it.end), (SECOND, SECOND * 2));
    let (l, c) = (it.low_latency.counters, it.classic.counters);
    assert_eq!([l.arrived, l.presented, l.forwarded].map(|n| n.get(Ecn::Ect1)), [50; 3]);
    assert!(near(l.marked.get(Ecn::Ect1) as usize, 20));
    assert_eq!((l.dropped.total(), l.bytes), (0, Bytes(50 * 1514)));
    assert_eq!((c.dropped.get(Ecn::NotEct), c.forwarded.total()), (dropped, 50 - dropped));
    assert!(dropped > 0 && c.marked.total() == 0 && c.arrived.get(Ecn::Ect0) == 0);
    let (l, c) = (it.low_latency.delays, it.classic.delays);
    assert!(l.mean < c.mean && l.p99 <= l.max && l.max < c.max, "{l:?} {c:?}");
    assert!((l.max.0 * 15 / 16..=l.max.0).contains(&l.p99.0));
    let after = q.end_interval(SECOND * 3);
    assert_eq!(after.low_latency, Default::default());
}

#[test]
fn the_controller_uses_the_delay_of_the_configured_queue() {
    let base = |input| {
        let mut q = DualPi2::new(Config { input, ..Config::rfc9332() }).unwrap();
        enqueue(&mut q, Nanos::ZERO, packet(0, Ecn::Ect1));
        enqueue(&mut q, MS * 9, packet(0, Ecn::NotEct));
        enqueue(&mut q, MS * 15, packet(1, Ecn::NotEct));
        q.probability()
    };
    // After 15 ms: 3 Hz x 15 ms, or 0.15 Hz x (6 - 15 ms) + 3 Hz x 6 ms.
    assert!((base(Input::Greatest) - 0.045).abs() < 1e-12);
    assert!((base(Input::ClassicFirst) - 0.016_65).abs() < 1e-12);
}

/// An update that became due between two calls uses the delay at its own time.
#[test]
fn overdue_updates_use_the_delay_at_their_time() {
    let mut q = DualPi2::new(Config { limit: 3, ..Config::rfc9332() }).unwrap();
    for id in 0..3 {
        enqueue(&mut q, MS * 5 * id, packet(id, Ecn::NotEct));
    }
    // A packet that finds no room only triggers the updates.
    let mut polled = q.clone();
    for ms in 11..=100 {
        assert_eq!(enqueue(&mut polled, MS * ms, packet(9, Ecn::NotEct)).len(), 1);
    }
    dequeue(&mut q, MS * 100);
    assert!(q.probability() > 0.2);
    assert_eq!(q.probability().to_bits(), polled.probability().to_bits());
}

/// Runs senders on a link; returns the measurements of classic and of L4S senders, and the plant.
fn plant(
    config: Config,
    mbps: u64,
    senders: &[(Kind, Ecn)],
) -> (Measured, Measured, Plant<DualPi2<Pkt>>) {
    let q = DualPi2::new(config).unwrap();
    let mut plant = Plant::new(q, Rate::from_mbps(mbps), MS * 20, senders);
    plant.run(SECOND * 20);
    plant.qdisc.end_interval(plant.now);
    let measured = plant.run(SECOND * 40);
    let of = |l4s: bool| {
        let of = measured.iter().zip(senders).filter(|(_, s)| (s.1 == Ecn::Ect1) == l4s);
        total(&of.map(|(m, _)| m.clone()).collect::<Vec<_>>())
    };
    (of(false), of(true), plant)
}

/// Reno and L4S senders share a link about evenly, while the C queue is at its target and the L
/// queue nearly empty.
#[test]
fn both_kinds_share_the_link_each_at_its_delay() {
    let (reno, l4s) = ((Kind::Reno, Ecn::NotEct), (Kind::Scalable, Ecn::Ect1));
    for config in [Config::rfc9332(), Config::paper()] {
        for mbps in [20, 100] {
            let senders = [reno, l4s, reno, l4s, reno, l4s];
            let (classic, scalable, mut plant) = plant(config.clone(), mbps, &senders);
            let interval = plant.qdisc.end_interval(plant.now);
            let c = interval.classic.delays.mean.as_millis_f64();
            assert!((12.0..18.0).contains(&c), "{c} ms at {mbps}");
            assert!((c - classic.delay_ms()).abs() < 0.5, "as measured outside");
            let l = interval.low_latency.delays;
            assert!(l.mean < MS && l.p99 < MS * 3, "{l:?} at {mbps}");
            let p_c = classic.lost as f64 / (classic.lost + classic.delivered) as f64;
            let p_l = scalable.marked as f64 / scalable.delivered as f64;
            let coupled = (p_l / 2.0) * (p_l / 2.0) / p_c;
            // Below one since the mean of p'^2 is more than the square of the mean of p'.
            assert!((0.5..1.6).contains(&coupled), "{p_l} {p_c} at {mbps}");
            let share = scalable.delivered as f64 / classic.delivered as f64;
            assert!((0.5..2.5).contains(&share), "{share} at {mbps}");
            assert_eq!(scalable.lost, 0);
            assert_eq!(plant.qdisc.overload().episodes, 0);
        }
    }
}

/// Unresponsive traffic of any ECN field is dropped down to the link rate at the target delay: 28.6
/// % of 140 Mbit/s on a link of 100.
#[test]
fn unresponsive_overload_is_dropped_at_the_target_delay() {
    let constant = Kind::Constant(Rate::from_mbps(140));
    for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
        let (classic, l4s, plant) = plant(Config::rfc9332(), 100, &[(constant, ecn)]);
        let it = total(&[classic, l4s]);
        let lost = it.lost as f64 / (it.lost + it.delivered) as f64;
        assert!((0.28..0.295).contains(&lost), "{lost} of {ecn:?}");
        assert!((13.0..17.0).contains(&it.delay_ms()), "{} ms of {ecn:?}", it.delay_ms());
        let overload = plant.qdisc.overload();
        let episode = overload.current.unwrap();
        assert!(episode.duration > SECOND * 40, "{overload:?}");
        assert!(episode.start < SECOND * 5 && overload.episodes == 1, "{overload:?}");
    }
}

/// Unresponsive traffic below capacity gets its rate, and the other senders share the rest.
#[test]
fn senders_share_what_unresponsive_traffic_leaves() {
    let (reno, l4s) = ((Kind::Reno, Ecn::NotEct), (Kind::Scalable, Ecn::Ect1));
    for ecn in [Ecn::Ect1, Ecn::NotEct] {
        let constant = (Kind::Constant(Rate::from_mbps(50)), ecn);
        let senders = [constant, reno, l4s, reno, l4s];
        let q = DualPi2::new(Config::rfc9332()).unwrap();
        let mut plant = Plant::new(q, Rate::from_mbps(100), MS * 20, &senders);
        plant.run(SECOND * 20);
        let measured = plant.run(SECOND * 40);
        let total = |a: usize, b: usize| measured[a].delivered + measured[b].delivered;
        let share = total(2, 4) as f64 / total(1, 3) as f64;
        assert!((0.4..2.5).contains(&share), "{share} with {ecn:?}");
        let link = Rate::from_mbps(100).bytes_in(SECOND * 40).0 / 1514;
        let used = (total(1, 3) + total(2, 4) + measured[0].delivered) as f64 / link as f64;
        assert!(used > 0.98, "{used}");
    }
}

/// With Curvy RED the classic queue is shorter where the windows are larger, the L queue stays
/// nearly empty, and both kinds of senders share the link.
#[test]
fn curvy_red_lets_the_delay_follow_the_load() {
    let (reno, l4s) = ((Kind::Reno, Ecn::NotEct), (Kind::Scalable, Ecn::Ect1));
    let mut delays = Vec::new();
    for pairs in [1, 3, 8] {
        let senders = [reno, l4s].repeat(pairs);
        let (classic, scalable, mut plant) = plant(red(CurvyRed::default()), 40, &senders);
        let interval = plant.qdisc.end_interval(plant.now);
        delays.push(classic.delay_ms());
        let l = interval.low_latency.delays;
        assert!(l.mean < MS && l.p99 < MS * 3, "{l:?} of {pairs} pairs");
        let share = scalable.delivered as f64 / classic.delivered as f64;
        assert!((0.5..2.5).contains(&share), "{share} of {pairs} pairs");
        assert_eq!(scalable.lost, 0);
    }
    assert!(delays.windows(2).all(|pair| pair[0] < pair[1]), "{delays:?}");
}

/// Overload is limited as with PI2: 28.6 % of 140 Mbit/s are dropped on a link of 100. Drops of
/// p'^2 = 0.286 need p' = 0.535, which is a delay of 267 ms; without a limit in bytes there is room
/// for it.
#[test]
fn curvy_red_drops_unresponsive_overload() {
    let constant = Kind::Constant(Rate::from_mbps(140));
    for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
        let (classic, l4s, plant) = plant(red(CurvyRed::default()), 100, &[(constant, ecn)]);
        let it = total(&[classic, l4s]);
        let lost = it.lost as f64 / (it.lost + it.delivered) as f64;
        assert!((0.28..0.295).contains(&lost), "{lost} of {ecn:?}");
        assert!((255.0..280.0).contains(&it.delay_ms()), "{} ms of {ecn:?}", it.delay_ms());
        let episode = plant.qdisc.overload().current.unwrap();
        assert!(episode.duration > SECOND * 40, "{episode:?}");
    }
}
