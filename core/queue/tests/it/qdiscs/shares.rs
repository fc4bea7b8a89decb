//! Shares of a common limit: hand-computed orders, and properties against a fluid model.

use forebay_queue::{Class, Fifo, Qdisc, Share, Shares, Weighted, fifo};
use forebay_units::{Bytes, Nanos, Rate};
use proptest::prelude::*;

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};

const FRAME: Bytes = Bytes(1_500);

fn weight(weight: u32) -> Share {
    Share { weight, rate: None }
}

/// Serves members for `time`, each with packets of its own length all the time, and returns the
/// bytes that each sent.
fn serve(limit: Rate, shares: &[Share], lengths: &[u64], time: Nanos) -> Vec<u64> {
    let mut all = Shares::new(Some(limit));
    for (index, share) in shares.iter().enumerate() {
        all.set(index, *share);
        all.set_ready(index, true);
    }
    let mut sent = vec![0; shares.len()];
    let mut now = Nanos::ZERO;
    while now < time {
        let index = all.next(now).expect("work conserving");
        sent[index] += lengths[index];
        all.charge(now, index, Bytes(lengths[index]));
        now = all.next_event(now).expect("members are ready");
    }
    sent
}

/// The shares of a fluid that is divided as [`Shares`] does.
fn fluid(limit: Rate, shares: &[Share]) -> Vec<f64> {
    let rate = |share: &Share| share.rate.map_or(0.0, |rate| rate.as_bps() as f64);
    let rest = limit.as_bps() as f64 - shares.iter().map(rate).sum::<f64>();
    let weights: f64 = shares.iter().map(|share| f64::from(share.weight)).sum();
    shares.iter().map(|share| rate(share) + rest * f64::from(share.weight) / weights).collect()
}

#[test]
fn the_order_follows_start_tags() {
    let mut all = Shares::new(None);
    for (index, share) in [weight(1), weight(2)].into_iter().enumerate() {
        all.set(index, share);
        all.set_ready(index, true);
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let index = all.next(Nanos::ZERO).unwrap();
        order.push(index);
        all.charge(Nanos::ZERO, index, FRAME);
    }
    // Start tags in bytes by weight: 0, 1500, 3000 and 0, 750, 1500, 2250; ties by number.
    assert_eq!(order, [0, 1, 1, 0, 1, 1]);
}

#[test]
fn five_members_of_weights_1_to_5_share_within_one_per_mille() {
    let shares: Vec<Share> = (1..=5).map(weight).collect();
    // Different lengths: shares are of bytes.
    let sent =
        serve(Rate::from_mbps(100), &shares, &[1_500, 64, 9_000, 600, 1_514], Nanos::from_secs(10));
    let total: u64 = sent.iter().sum();
    assert!((124_990_000..=125_040_000).contains(&total), "100 Mbit/s for 10 s: {total}");
    for (index, bytes) in sent.iter().enumerate() {
        let (share, wanted) = (*bytes as f64 / total as f64, (index + 1) as f64 / 15.0);
        assert!((share / wanted - 1.0).abs() < 0.001, "member {index}: {share} for {wanted}");
    }
}

#[test]
fn a_guaranteed_rate_goes_first_and_the_rest_goes_by_weight() {
    let guaranteed = Share { weight: 1, rate: Some(Rate::from_mbps(4)) };
    let sent = serve(
        Rate::from_mbps(10),
        &[guaranteed, weight(1), weight(2)],
        &[1_500; 3],
        Nanos::from_secs(10),
    );
    // 4 of 10 Mbit/s are owed to the first; 6 are shared 1 : 1 : 2.
    for (bytes, mbps) in sent.iter().zip([5.5, 1.5, 3.0]) {
        let wanted = mbps * 1e6 / 8.0 * 10.0;
        assert!((*bytes as f64 / wanted - 1.0).abs() < 0.005, "{sent:?}");
    }
}

#[test]
fn a_member_gets_no_credit_for_idle_time() {
    let mut all = Shares::new(None);
    all.set(0, weight(1));
    all.set(1, weight(1));
    all.set_ready(0, true);
    for _ in 0..100 {
        all.charge(Nanos::ZERO, 0, FRAME);
    }
    all.set_ready(1, true);
    let mut order = Vec::new();
    for _ in 0..4 {
        let index = all.next(Nanos::ZERO).unwrap();
        order.push(index);
        all.charge(Nanos::ZERO, index, FRAME);
    }
    assert_eq!(order, [1, 0, 1, 0]);
}

#[test]
fn weights_and_the_limit_change_while_members_wait() {
    let mut all = Shares::new(Some(Rate::from_mbps(12)));
    all.set(0, weight(1));
    all.set(1, weight(1));
    (0..2).for_each(|index| all.set_ready(index, true));
    let mut now = Nanos::from_secs(1);
    let run = |all: &mut Shares, now: &mut Nanos, packets: u32| {
        let mut sent = [0u32; 2];
        let start = *now;
        for _ in 0..packets {
            let index = all.next(*now).unwrap();
            sent[index] += 1;
            all.charge(*now, index, FRAME);
            *now = all.next_event(*now).unwrap();
        }
        (sent, *now - start)
    };
    // 1500 bytes take a millisecond at 12 Mbit/s; the burst is a quarter of that.
    let (sent, took) = run(&mut all, &mut now, 400);
    assert_eq!(sent, [200, 200]);
    assert_eq!(took, Nanos::from_micros(399_750));
    all.set(1, weight(3));
    assert!(all.is_ready(1));
    let (sent, _) = run(&mut all, &mut now, 400);
    assert!(sent[0].abs_diff(100) <= 1, "{sent:?}");
    all.set_limit(Some(Rate::from_mbps(24)));
    let (_, took) = run(&mut all, &mut now, 400);
    assert_eq!(took, Nanos::from_millis(200));
}

/// Classes within a member: the second level is another [`Shares`].
#[test]
fn classes_divide_the_part_of_their_member() {
    let limit = Rate::from_mbps(10);
    let class = |weight, rate| Class {
        share: Share { weight, rate: Option::map(rate, Rate::from_mbps) },
        ceil: None,
    };
    let fifo = || Fifo::new(fifo::Config::default()).unwrap();
    let tree = |classes: Vec<Class>| {
        Weighted::new(classes.into_iter().map(|c| (c, fifo())).collect::<Vec<_>>()).unwrap()
    };
    // Of 10 Mbit/s the first member has 2.5, of which a class may have 0.5; the second 7.5, of
    // which a class is owed 3.
    let mut members = [
        tree(vec![Class { ceil: Some(Rate::from_bps(500_000)), ..class(9, None) }, class(1, None)]),
        tree(vec![class(1, Some(3)), class(2, None)]),
    ];
    let mut all = Shares::new(Some(limit));
    all.set(0, weight(1));
    all.set(1, weight(3));
    let mut bytes = [[0u64; 2]; 2];
    let mut waiting = [[0u32; 2]; 2];
    let (mut now, mut id) = (Nanos::ZERO, 0);
    while now < Nanos::from_secs(10) {
        for (index, member) in members.iter_mut().enumerate() {
            for class in 0..2u8 {
                while waiting[index][usize::from(class)] < 20 {
                    waiting[index][usize::from(class)] += 1;
                    id += 1;
                    enqueue(member, now, Pkt { class, len: 1_500, ..frame(id, 1) });
                }
            }
            all.set_ready(index, member.next_event(now).is_some_and(|due| due <= now));
        }
        let index = all.next(now).expect("work conserving");
        let packet = dequeue(&mut members[index], now).0.expect("it was ready");
        all.charge(now, index, Bytes(packet.len));
        bytes[index][usize::from(packet.class)] += packet.len;
        waiting[index][usize::from(packet.class)] -= 1;
        now = all.next_event(now).unwrap();
    }
    let wanted = [[0.5, 2.0], [4.5, 3.0]];
    for (sent, wanted) in bytes.as_flattened().iter().zip(wanted.as_flattened()) {
        let mbps = *sent as f64 * 8.0 / 10.0 / 1e6;
        assert!((mbps / wanted - 1.0).abs() < 0.01, "{mbps} for {wanted}: {bytes:?}");
    }
}

proptest! {
    /// Members that always have packets get what a fluid would, to within a few packets.
    #[test]
    fn shares_are_those_of_a_fluid(
        members in prop::collection::vec(
            (1u32..=100, prop::option::of(1u64..=100), 256u64..=1_514),
            1..8,
        ),
        mbps in 10u64..=50,
    ) {
        let limit = Rate::from_mbps(mbps);
        // Guarantees add up to at most nine tenths.
        let most = limit.as_bps() * 9 / 10 / members.len() as u64;
        let shares: Vec<Share> = members
            .iter()
            .map(|(weight, part, _)| Share {
                weight: *weight,
                rate: part.map(|part| Rate::from_bps(most * part / 100)),
            })
            .collect();
        let lengths: Vec<u64> = members.iter().map(|(_, _, length)| *length).collect();
        let time = Nanos::from_secs(2);
        let sent = serve(limit, &shares, &lengths, time);
        for (index, (bytes, bps)) in sent.iter().zip(fluid(limit, &shares)).enumerate() {
            let wanted = bps / 8.0 * 2.0;
            // The bursts of a guarantee (10 ms) and a few packets of each other member.
            let slack = wanted * 0.02 + 1_514.0 * 2.0 * members.len() as f64 + 10_000.0;
            prop_assert!(
                (*bytes as f64 - wanted).abs() <= slack,
                "member {index}: {bytes} for {wanted}, all {sent:?}"
            );
        }
    }

    /// Whatever members do, a ready one is named whenever the limit allows it, the limit holds, and
    /// nobody who is not ready is named.
    #[test]
    fn it_is_work_conserving_and_keeps_the_limit(
        steps in prop::collection::vec(
            (0usize..5, any::<bool>(), 64u64..=9_000, 0u64..400),
            1..400,
        ),
    ) {
        let limit = Rate::from_mbps(80);
        let mut all = Shares::new(Some(limit));
        let mut ready = [false; 5];
        for index in 0..5 {
            let rate = (index % 2 == 0).then(|| Rate::from_mbps(10));
            all.set(index, Share { weight: index as u32 + 1, rate });
        }
        let (mut now, mut sent, mut last) = (Nanos::from_secs(1), 0u64, 0);
        let start = now;
        for (index, is_ready, length, later) in steps {
            now += Nanos::from_micros(later);
            ready[index] = is_ready;
            all.set_ready(index, is_ready);
            let due = all.next_event(now);
            prop_assert_eq!(due.is_some(), ready.contains(&true));
            let next = all.next(now);
            prop_assert_eq!(next.is_some(), due == Some(now));
            if let Some(next) = next {
                prop_assert!(ready[next]);
                all.charge(now, next, Bytes(length));
                (sent, last) = (sent + length, length);
            }
            // At most the rate, the burst and one packet.
            let most = limit.bytes_in(now - start + Nanos::from_micros(250)).0 + last;
            prop_assert!(sent <= most + 1, "{sent} of {most}");
        }
    }
}
