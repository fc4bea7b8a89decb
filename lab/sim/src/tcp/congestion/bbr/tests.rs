//! Tests of BBR's parts.

use super::*;
use crate::tcp::congestion::tests::connection;

const MS: u64 = 1_000_000;

/// Returns the bandwidth of a segment per `per_segment` nanoseconds.
fn bandwidth(per_segment: u64) -> u64 {
    (1 << SCALE) / per_segment
}

#[test]
fn aggregated_acknowledgements_enlarge_the_window() {
    let mut aggregation = Aggregation::default();
    let rate = bandwidth(100_000);
    // Forty segments at once every 4 ms, which is the bandwidth.
    for n in 1..=10 {
        let c = connection(n * 4 * MS, 20 * MS);
        let s = Sample { newly: 40, interval: MS, ..Sample::default() };
        aggregation.update(rate, false, 500, &c, &s);
    }
    assert!((40..=41).contains(&aggregation.window(rate)), "{}", aggregation.window(rate));
    // After two windows of five rounds it expires.
    for n in 0..1000 {
        let c = connection(50 * MS + n * 100_000, 20 * MS);
        let s = Sample { newly: 1, interval: MS, ..Sample::default() };
        aggregation.update(rate, n % 100 == 0, 500, &c, &s);
    }
    assert!(aggregation.window(rate) <= 2, "{}", aggregation.window(rate));
}

#[test]
fn two_lossy_intervals_at_one_rate_indicate_a_policer() {
    let mut policer = Policer::default();
    let mut s = Sample { losses: 1, ..Sample::default() };
    let mut round = |policer: &mut Policer, n: u64| {
        s.delivered += 100;
        s.all_losses += 30;
        policer.update(n * 20 * MS, true, true, &s)
    };
    for n in 1..=7 {
        round(&mut policer, n);
        assert_eq!(policer.rate(), None, "round {n}");
    }
    round(&mut policer, 8);
    // A hundred segments in 20 ms.
    let rate = policer.rate().unwrap();
    assert!(rate.abs_diff(bandwidth(200_000)) <= 1, "{rate}");
    assert!((9..56).all(|n| !round(&mut policer, n)));
    assert!(round(&mut policer, 56), "48 rounds later");
    assert_eq!(policer.rate(), None);
}

#[test]
fn the_round_trip_time_is_probed_with_four_segments_after_ten_seconds() {
    let mut bbr = Bbr::new(0, 1, Some(20 * MS));
    let mut window = Window::new(100);
    let mut delivered = 1000;
    let mut at = |now: u64, bbr: &mut Bbr, window: &mut Window| {
        delivered += 10;
        let s = Sample {
            delivered,
            prior_delivered: delivered - 100,
            segments: 100,
            interval: 20 * MS,
            newly: 10,
            rtt: Some(if now < 50 * MS { 20 * MS } else { 21 * MS }),
            in_flight: window.size.min(100),
            prior_in_flight: window.size.min(100),
            ..Sample::default()
        };
        bbr.on_ack(window, &connection(now, 20 * MS), &s);
    };
    for n in 50..5_000 {
        at(n * 2 * MS, &mut bbr, &mut window);
        assert!(!bbr.probes_rtt() && window.size > 100, "{n}: {}", window.size);
    }
    let before = window.size;
    let probing: Vec<_> = (5_000..5_400)
        .filter(|n| {
            at(n * 2 * MS, &mut bbr, &mut window);
            bbr.probes_rtt()
        })
        .collect();
    // 200 ms from when only four segments are in flight.
    assert!((100..=112).contains(&probing.len()), "{}", probing.len());
    assert!(window.size + 40 >= before, "{} {before}", window.size);
}

#[test]
fn segments_that_wait_for_pacing_are_not_in_the_network() {
    let mut bbr = Bbr::new(0, 1, Some(20 * MS));
    bbr.bandwidth.update(1, bandwidth(100_000));
    bbr.pacing_gain = UNITY;
    let c = Connection { backlog: MS, ..connection(0, 20 * MS) };
    assert!((90..=91).contains(&bbr.inside(&c, 100)));
    assert_eq!(bbr.inside(&c, 5), 0);
}
