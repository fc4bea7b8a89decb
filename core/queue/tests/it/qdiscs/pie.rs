use forebay_queue::{DropReason, Ecn, Limit, Pie, Qdisc, pie};
use forebay_units::{Nanos, Rate};

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};
use crate::qdiscs::plant::{Kind, Plant, total};

const MS: Nanos = Nanos::from_millis(1);

fn queue(params: pie::Params) -> Pie<Pkt> {
    let limit = Limit::packets(10_000);
    Pie::new(pie::Config { limit, params, ..pie::Config::default() }).unwrap()
}

/// Enqueues two packets and dequeues one in each millisecond of `0..ms`. Returns the times of drops
/// and the number of marks.
fn overload(q: &mut Pie<Pkt>, ms: u64, ecn: Ecn) -> (Vec<u64>, usize) {
    let (mut drops, mut marks) = (Vec::new(), 0);
    for at in 0..ms {
        for id in [2 * at, 2 * at + 1] {
            let dropped = enqueue(q, MS * at, Pkt { ecn, ..frame(id, 0) });
            assert!(dropped.iter().all(|(p, r)| (p.id, *r) == (id, DropReason::Pie)));
            drops.extend(dropped.iter().map(|_| at));
        }
        let sent = dequeue(q, MS * at).0.unwrap();
        marks += usize::from(ecn != Ecn::Ce && sent.ecn == Ecn::Ce);
    }
    (drops, marks)
}

#[test]
fn a_burst_passes_without_drops_and_a_standing_queue_does_not() {
    let mut q = queue(pie::Params::default());
    let (drops, _) = overload(&mut q, 600, Ecn::NotEct);
    assert!(drops[0] >= 150, "first at {} ms", drops[0]);
    assert!(drops.len() > 20, "{} drops", drops.len());
    assert!(q.probability() > 0.1);
}

/// Only ECN-capable packets are marked, and only while the probability is at most the threshold.
#[test]
fn ecn_marks_up_to_the_threshold() {
    let params = pie::Params { ecn: true, ..pie::Params::default() };
    let mut q = queue(params);
    let (drops, marks) = overload(&mut q, 2000, Ecn::Ect0);
    assert!(marks > 0, "there are marks at first");
    assert!(!drops.is_empty(), "there are drops once the probability is above 10 %");
    assert!(q.probability() > 0.1);
    let all = pie::Params { mark_threshold: 1.0, ..params };
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        assert_eq!(overload(&mut queue(all), 1000, ecn).0, [], "{ecn:?}");
    }
    assert!(!overload(&mut queue(all), 1000, Ecn::NotEct).0.is_empty());
    let none = pie::Params { mark_threshold: 0.0, ..params };
    let (drops, _) = overload(&mut queue(none), 1000, Ecn::Ect0);
    assert!(!drops.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_drops() {
    let run = |seed| {
        let config = pie::Config { limit: Limit::packets(10_000), seed, ..pie::Config::default() };
        overload(&mut Pie::new(config).unwrap(), 2000, Ecn::NotEct).0
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Updates that became due between two calls give the same probability as with calls at every
/// update.
#[test]
fn overdue_updates_give_the_same_probability() {
    let mut q = queue(pie::Params::default());
    overload(&mut q, 2000, Ecn::NotEct);
    while dequeue(&mut q, MS * 2000).0.is_some() {}
    let mut polled = q.clone();
    for ms in 2001..=3000 {
        assert_eq!(dequeue(&mut polled, MS * ms).0, None);
    }
    assert!(polled.probability() < 0.9 * q.probability());
    dequeue(&mut q, MS * 3000);
    assert_eq!(q.probability().to_bits(), polled.probability().to_bits());
}

/// With ten Reno senders at 20 and at 100 Mbit/s the mean delay is at the target and the link stays
/// busy.
#[test]
fn the_delay_stays_at_the_target() {
    for (mbps, target) in [(20, 15), (100, 15), (100, 30)] {
        let target = MS * target;
        let q = queue(pie::Params { target, ..pie::Params::default() });
        let senders = [(Kind::Reno, Ecn::NotEct); 10];
        let rate = Rate::from_mbps(mbps);
        let mut plant = Plant::new(q, rate, MS * 30, &senders);
        plant.run(Nanos::from_secs(20));
        let measured = total(&plant.run(Nanos::from_secs(40)));
        let off = measured.delay_ms() / target.as_millis_f64();
        assert!((0.8..1.2).contains(&off), "{} ms at {mbps} Mbit/s", measured.delay_ms());
        let sent = rate.bytes_in(Nanos::from_secs(40)).0 / 1514;
        assert!(measured.delivered > sent * 95 / 100, "{} of {sent}", measured.delivered);
        assert!(plant.qdisc.backlog().packets < 1000);
    }
}

/// Unresponsive traffic is dropped down to the link rate: a third of 30 Mbit/s on 20 Mbit/s.
#[test]
fn unresponsive_traffic_is_dropped_down_to_the_link_rate() {
    let senders = [(Kind::Constant(Rate::from_mbps(30)), Ecn::NotEct)];
    let q = queue(pie::Params::default());
    let mut plant = Plant::new(q, Rate::from_mbps(20), MS * 30, &senders);
    plant.run(Nanos::from_secs(20));
    let measured = total(&plant.run(Nanos::from_secs(40)));
    let lost = measured.lost as f64 / (measured.lost + measured.delivered) as f64;
    assert!((0.32..0.35).contains(&lost), "{lost}");
    assert!((12.0..18.0).contains(&measured.delay_ms()), "{} ms", measured.delay_ms());
}
