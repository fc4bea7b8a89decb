//! Tests of BBR with numbers computed by hand: 96 Mbit/s and 50 ms, so 600 kB in flight.

use super::*;
use crate::controller::quiet;
use std::vec::Vec;

const MS: Nanos = Nanos::from_millis(1);
const RATE: Rate = Rate::from_mbps(96);

fn new() -> Bbr {
    Bbr::new(BbrConfig::default(), Rate::from_mbps(1), Rate::from_mbps(1000))
}

/// Returns a controller that has been at 96 Mbit/s since 10 s.
fn cruising() -> Bbr {
    let mut bbr = new();
    bbr.resume(RATE, &quiet());
    bbr
}

fn after(ms: u64) -> Measurement {
    Measurement { now: MS * (10_000 + ms), ..quiet() }
}

fn received(mbps: u64, ms: u64) -> Measurement {
    let rate = Rate::from_mbps(mbps);
    Measurement { send_rate: rate, receive_rate: rate, ..after(ms) }
}

#[test]
fn a_cycle_probes_drains_and_cruises() {
    let mut bbr = cruising();
    // From the first phase at BtlBw on, the probe comes 300 ms later.
    let rates: Vec<_> = (0..16).map(|i| bbr.on_tick(&after(50 * i)).as_mbps_f64()).collect();
    let cycle = [96.0, 96.0, 96.0, 96.0, 96.0, 96.0, 120.0, 72.0];
    assert_eq!(rates, [cycle, cycle].concat());
    let mut bbr = cruising();
    let phases: Vec<_> = (0..8).map(|i| (bbr.on_tick(&after(50 * i)), bbr.phase()).1).collect();
    assert_eq!(phases[5..], [Phase::Cruise, Phase::Raise, Phase::Lower]);
}

#[test]
fn on_short_paths_a_phase_is_two_ticks() {
    let mut bbr = cruising();
    let short = |ms| Measurement { min_rtt: MS * 2, rtt: MS * 2, ..after(ms) };
    let rates: Vec<_> = (0..16).map(|i| bbr.on_tick(&short(10 * i)).as_mbps_f64()).collect();
    assert_eq!(rates[10..], [96.0, 96.0, 120.0, 120.0, 72.0, 72.0]);
}

#[test]
fn at_most_two_bandwidth_delay_products_are_in_flight() {
    let mut bbr = cruising();
    let mut queued = |ms| bbr.on_tick(&Measurement { rtt: MS * ms, ..after(0) });
    assert_eq!(queued(100), RATE);
    // The window is 1.2 MB over 125 ms.
    assert_eq!(queued(125), Rate::from_bps(76_800_000));
}

#[test]
fn the_bandwidth_is_the_lower_of_both_rates_and_lasts_ten_round_trips() {
    let mut bbr = cruising();
    let fast = Measurement { send_rate: Rate::from_mbps(110), ..received(130, 60) };
    bbr.on_tick(&fast);
    assert_eq!(bbr.bandwidth.get(), 110e6);
    for ms in (70..=1_000).step_by(10) {
        bbr.on_tick(&received(60, ms));
        let expected = if ms < 500 { 110e6 } else { 60e6 };
        // The window moves on by eighths.
        if !(420..=570).contains(&ms) {
            assert_eq!(bbr.bandwidth.get(), expected, "{ms}");
        }
    }
}

#[test]
fn an_application_limited_rate_counts_only_if_it_is_higher() {
    let mut bbr = cruising();
    for ms in (60..5_000).step_by(10) {
        bbr.on_tick(&Measurement { limited_for: MS * 90, ..received(10, ms) });
    }
    assert_eq!(bbr.bandwidth.get(), 96e6);
    bbr.on_tick(&Measurement { limited_for: Nanos::ZERO, ..received(100, 5_000) });
    assert_eq!(bbr.bandwidth.get(), 100e6);
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drains_what_it_built() {
    let mut bbr = new();
    bbr.start(Rate::from_mbps(10), &quiet());
    let gain = 2.0 / LN_2;
    // A round is 60 ms: 50 of the path and 10 between samples.
    for (round, mbps) in [20, 40, 80, 90, 92].into_iter().enumerate() {
        let rate = bbr.on_tick(&received(mbps, 60 * (round as u64 + 1))).as_mbps_f64();
        assert!((rate - gain * mbps as f64).abs() < 0.001, "{mbps}: {rate}");
        assert_eq!(bbr.phase(), Phase::SlowStart);
    }
    let full = Measurement { unacknowledged: Bytes(1_500_000), ..received(96, 360) };
    let rate = bbr.on_tick(&full).as_mbps_f64();
    assert!((rate - 96.0 / gain).abs() < 0.001, "{rate}");
    assert_eq!(bbr.phase(), Phase::Lower);
    // 720 kB less the 120 kB served in the 10 ms since the sample are the product.
    let more = Measurement { unacknowledged: Bytes(721_000), sample_age: MS * 10, ..after(400) };
    bbr.on_tick(&more);
    assert_eq!(bbr.phase(), Phase::Lower);
    bbr.on_tick(&Measurement { unacknowledged: Bytes(720_000), ..more });
    assert_eq!(bbr.phase(), Phase::Cruise);
}

#[test]
fn startup_waits_for_traffic_that_fills_it() {
    let mut bbr = new();
    bbr.start(Rate::from_mbps(10), &quiet());
    for round in 1..100 {
        bbr.on_tick(&Measurement { limited_for: MS * 50, ..received(10, 60 * round) });
    }
    assert_eq!(bbr.phase(), Phase::SlowStart);
}

#[test]
fn a_probe_of_the_rtt_nearly_stops_and_then_the_old_rate_returns() {
    let mut bbr = cruising();
    let old = |ms: u64, mbps| Measurement { min_rtt_age: MS * 8_001, ..received(mbps, ms) };
    // Four packets of 1500 B in 50 ms are 960 kbit/s, but the lowest rate is 1 Mbit/s.
    assert_eq!(bbr.on_tick(&old(10, 96)), Rate::from_mbps(1));
    assert_eq!(bbr.phase(), Phase::Drain);
    // The probe takes 200 ms and a minimum RTT. Its rates do not count.
    for ms in (20..260).step_by(10) {
        assert_eq!(bbr.on_tick(&old(ms, 1)), Rate::from_mbps(1), "{ms}");
    }
    assert_eq!(bbr.on_tick(&old(260, 1)), RATE);
    // Nor do rates until a round trip and the span of a sample are over.
    for ms in (270..370).step_by(10) {
        bbr.on_tick(&Measurement { min_rtt_age: Nanos::ZERO, ..received(1, ms) });
    }
    assert_eq!(bbr.bandwidth.get(), 96e6);
}

#[test]
fn a_hidden_minimum_is_not_probed_for_all_the_time() {
    let mut bbr = cruising();
    let stopped = (0..400)
        .filter(|i| {
            let hidden = Measurement { min_rtt_age: MS * 9_000, ..after(10 * i) };
            bbr.on_tick(&hidden);
            bbr.phase() == Phase::Drain
        })
        .count();
    // A probe takes 250 ms, then there is a second without: three and a part in four seconds.
    assert!((75..=100).contains(&stopped), "{stopped}");
}
