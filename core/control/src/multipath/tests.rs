use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const SECOND: Nanos = Nanos::from_secs(1);
/// A packet whose flow is not known.
const UNKNOWN: Answered = Answered { flow: None, rtt: Nanos::from_millis(50) };
/// The same on a longer path.
const LATE: Answered = Answered { flow: None, rtt: Nanos::from_millis(250) };

/// Adds `n` measurements, of which every `nth` is out of order.
fn answers(multipath: &mut Multipath, n: u32, nth: u32) {
    for i in 1..=n {
        let sequence = multipath.newest.sequence + 1;
        if i.is_multiple_of(nth) {
            multipath.on_late_mark(sequence, LATE, true);
        } else {
            multipath.on_in_order(sequence, UNKNOWN, true);
        }
    }
}

#[test]
fn a_late_message_is_no_late_packet_where_few_messages_count() {
    let mut multipath = Multipath::new();
    for n in 1..=400_u64 {
        // One message of four counts; its predecessor comes late and would count.
        multipath.on_in_order(8 * n, UNKNOWN, n.is_multiple_of(4));
        multipath.on_late_mark(8 * n - 1, UNKNOWN, true);
    }
    assert_eq!(multipath.share(), Some(0.0));
}

#[test]
fn the_thresholds_separate_the_shares_of_the_paper() {
    let mut multipath = Multipath::new();
    answers(&mut multipath, 63, 1);
    assert!(!multipath.on_tick(SECOND), "too few measurements");
    let mut multipath = Multipath::new();
    answers(&mut multipath, 10_000, 250);
    assert!(!multipath.on_tick(SECOND), "0.4 %");
    answers(&mut multipath, 128, 5);
    assert_eq!(multipath.share(), Some(25.0 / 128.0));
    assert!(multipath.on_tick(SECOND), "20 %");
}

#[test]
fn late_messages_do_not_count_as_late_packets() {
    let mut multipath = Multipath::new();
    (10..138).for_each(|sequence| {
        multipath.on_in_order(sequence, UNKNOWN, true);
        multipath.on_late_mark(sequence - 5, UNKNOWN, true);
    });
    assert_eq!(multipath.share(), Some(0.0));
}

#[test]
fn each_return_comes_later() {
    let mut multipath = Multipath::new();
    let mut now = SECOND;
    for wait in [10, 20, 40, 80, 160, 320, 320] {
        answers(&mut multipath, 128, 4);
        assert!(multipath.on_tick(now));
        answers(&mut multipath, 128, 200);
        assert!(multipath.on_tick(now + SECOND * wait - Nanos(1)));
        now += SECOND * wait;
        assert!(!multipath.on_tick(now));
    }
    // A return that lasted a minute resets the time.
    now += SECOND * 61;
    answers(&mut multipath, 128, 4);
    assert!(multipath.on_tick(now));
    answers(&mut multipath, 128, 200);
    assert!(!multipath.on_tick(now + SECOND * 10));
}

/// A boundary packet of a modelled network.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    flow: u32,
    was_idle: bool,
}

/// Returns a packet each 10 ms. One in `idle_every` is of a flow that was idle, the others are of
/// `backlogged` flows.
fn packets(draws: &[u32], idle_every: u32, backlogged: u32) -> Vec<Sent> {
    let packet = |(n, draw): (u64, &u32)| {
        let was_idle = draw.is_multiple_of(idle_every);
        let flow = if was_idle { 1_000 + n as u32 } else { draw / 7 % backlogged };
        Sent { at: n * 10, flow, was_idle }
    };
    (0..).zip(draws).map(packet).collect()
}

/// Answers the packets in the order in which they arrive after `delay` in milliseconds.
fn answer(packets: &[Sent], delay: impl Fn(usize, &Sent) -> u64) -> Multipath {
    let mut multipath = Multipath::new();
    answer_more(&mut multipath, packets, delay);
    multipath
}

fn answer_more(multipath: &mut Multipath, packets: &[Sent], delay: impl Fn(usize, &Sent) -> u64) {
    let mut arrivals: Vec<(u64, &Sent)> =
        packets.iter().enumerate().map(|(n, sent)| (sent.at + delay(n, sent), sent)).collect();
    arrivals.sort_by_key(|(arrival, sent)| (*arrival, sent.at));
    let mut newest = None;
    for (arrival, sent) in arrivals {
        let sequence = multipath.newest.sequence.max(arrival) + 1;
        let pause_us = if sent.was_idle { 5_000_000 } else { 1_000 };
        let flow = Some(FlowPosition::new(sent.flow, pause_us));
        let packet = Answered { flow, rtt: Nanos::from_millis(arrival - sent.at) };
        if newest.is_some_and(|at| sent.at < at) {
            multipath.on_late_mark(sequence, packet, true);
        } else {
            newest = Some(sent.at);
            multipath.on_in_order(sequence, packet, true);
        }
    }
}

fn draws() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 1500)
}

/// The path of a flow among `paths`.
fn path_of(flow: u32, paths: u32) -> u32 {
    (flow.wrapping_mul(0x9e37_79b9) >> 16) % paths
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn several_paths_of_different_delay_are_found(
        draws in draws(),
        paths in 2u32..5,
        apart in 30u64..200,
    ) {
        let packets = packets(&draws, 12, 8);
        let mut multipath = answer(&packets, |_, sent| {
            20 + apart * u64::from(path_of(sent.flow, paths))
        });
        // Where few packets of late take the longer paths, packets wait too little to be judged.
        prop_assume!(multipath.measured.busy_wait() >= Some(LEAST_WAIT));
        prop_assert!(multipath.on_tick(SECOND), "{:?}", multipath.measured);
    }

    #[test]
    fn paths_of_equal_length_whose_queues_differ_are_found(
        draws in draws(),
        period in 30usize..200,
    ) {
        let packets = packets(&draws, 12, 8);
        // One queue grows while the other one drains, by half of the time that passes.
        let mut multipath = answer(&packets, |n, sent| {
            let phase = n % (2 * period);
            let queue = (phase.min(2 * period - phase) as u64 * 5).min(150);
            25 + if path_of(sent.flow, 2) == 0 { queue } else { 150 - queue }
        });
        prop_assert!(multipath.on_tick(SECOND), "{:?}", multipath.measured);
    }

    #[test]
    fn a_fair_queue_on_one_path_is_not_several_paths(
        draws in draws(),
        queues in prop::collection::vec(0u64..500, 8),
    ) {
        let packets = packets(&draws, 12, 8);
        // Each backlogged flow has a queue of its own; those of idle flows are served in a round.
        let mut multipath = answer(&packets, |n, sent| {
            let round = u64::from(draws[n] >> 29);
            20 + if sent.was_idle { round } else { queues[sent.flow as usize] }
        });
        prop_assert!(!multipath.on_tick(SECOND), "{:?}", multipath.measured);
    }

    #[test]
    fn jitter_on_one_path_is_not_several_paths(draws in draws(), most in 11u64..60) {
        let packets = packets(&draws, 12, 4);
        let mut multipath = answer(&packets, |n, _| 20 + u64::from(draws[n] >> 8) % most);
        prop_assert!(!multipath.on_tick(SECOND), "{:?}", multipath.measured);
    }

    #[test]
    fn bursts_on_one_path_are_not_several_paths(draws in draws(), period in 10u64..200) {
        let packets = packets(&draws, 12, 8);
        let mut multipath =
            answer(&packets, |_, sent| 20 + (period - sent.at % period) % period);
        prop_assert!(!multipath.on_tick(SECOND));
        prop_assert_eq!(multipath.share(), Some(0.0));
    }

    #[test]
    fn short_queues_need_no_other_rule(draws in draws(), paths in 2u32..5) {
        let packets = packets(&draws, 12, 8);
        let mut multipath =
            answer(&packets, |_, sent| 20 + 11 * u64::from(path_of(sent.flow, paths)) / 2);
        prop_assert!(!multipath.on_tick(SECOND), "{:?}", multipath.measured);
    }

    #[test]
    fn the_last_measurements_count(
        last in prop::collection::vec((any::<bool>(), 1u32..1_000), 1..300),
    ) {
        let (mut order, mut delays) = (Order::default(), Delays::<32>::default());
        for &(late, us) in &last {
            order.remember(late);
            delays.remember(Nanos::from_micros(us.into()));
        }
        let kept = |n: usize| &last[last.len().saturating_sub(n)..];
        let late = kept(128).iter().filter(|(late, _)| *late).count();
        prop_assert_eq!(order.share(1), Some(late as f64 / kept(128).len() as f64));
        prop_assert_eq!(order.share(kept(128).len() as u32 + 1), None);
        let all: Vec<u32> = kept(32).iter().map(|&(_, us)| us).collect();
        let us = |us: u32| Nanos::from_micros(us.into());
        prop_assert_eq!(delays.shortest(), all.iter().min().map(|&n| us(n)));
        prop_assert_eq!(delays.longest(), all.iter().max().map(|&n| us(n)));
        let mean = all.iter().sum::<u32>() / all.len() as u32;
        prop_assert_eq!(delays.mean(all.len()), Some(us(mean)));
        prop_assert_eq!(delays.mean(all.len() + 1), None);
        let longer = all.iter().filter(|&&n| n > mean).count();
        prop_assert_eq!((delays.seen(), delays.longer_than(us(mean))), (all.len(), longer));
    }
}

#[test]
fn without_idle_flows_all_measurements_decide_after_a_while() {
    let draws: Vec<u32> = (0..300).map(|n: u32| n.wrapping_mul(2_654_435_761) | 1).collect();
    // No draw is a multiple of this.
    let packets = packets(&draws, 1 << 31, 8);
    let delay = |_: usize, sent: &Sent| 20 + 100 * u64::from(path_of(sent.flow, 2));
    let mut multipath = answer(&packets[..150], delay);
    assert!(multipath.share() > Some(SEVERAL) && !multipath.on_tick(SECOND));
    answer_more(&mut multipath, &packets[150..], delay);
    assert!(multipath.on_tick(SECOND));
}

#[test]
fn a_bundle_whose_path_becomes_single_with_a_fair_queue_returns() {
    let draws: Vec<u32> = (0..1_500).map(|n: u32| n.wrapping_mul(2_654_435_761) >> 3).collect();
    let packets = packets(&draws, 8, 8);
    let mut multipath = answer(&packets, |_, sent| 20 + 100 * u64::from(path_of(sent.flow, 2)));
    assert!(multipath.on_tick(SECOND));
    let fair =
        |_: usize, sent: &Sent| if sent.was_idle { 20 } else { 20 + 40 * u64::from(sent.flow) };
    answer_more(&mut multipath, &packets, fair);
    assert!(multipath.share() > Some(SEVERAL));
    assert!(!multipath.on_tick(SECOND * 11));
}
