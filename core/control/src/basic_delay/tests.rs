//! Tests of BasicDelay with numbers computed by hand: 96 Mbit/s and 50 ms, so the threshold is 62.5
//! ms and its queue 12.5 ms.

use super::*;
use crate::controller::quiet;

const MS: Nanos = Nanos::from_millis(1);
const RATE: Rate = Rate::from_mbps(96);

fn new() -> BasicDelay {
    let (least, most) = (Rate::from_mbps(1), Rate::from_mbps(1000));
    BasicDelay::new(BasicDelayConfig::default(), least, most)
}

/// Returns a controller that just saw the path serve 96 Mbit/s, without a queue.
fn resumed() -> BasicDelay {
    let mut control = new();
    control.resume(RATE, &Measurement { now: MS * 9_990, ..quiet() });
    control
}

/// Returns a measurement with these rates in Mbit/s and this queue in milliseconds.
fn at(send: u64, receive: u64, queue: u64) -> Measurement {
    let rtt = MS * (50 + queue);
    Measurement {
        rtt,
        standing_rtt: rtt,
        smoothed_rtt: rtt,
        send_rate: Rate::from_mbps(send),
        receive_rate: Rate::from_mbps(receive),
        ..quiet()
    }
}

fn assert_mbps(rate: Rate, expected: f64) {
    let rate = rate.as_mbps_f64();
    assert!((rate - expected).abs() < 0.001, "{rate}, not {expected}");
}

#[test]
fn the_rate_is_stable_at_a_queue_of_a_quarter_of_the_minimum_rtt() {
    let m = Measurement {
        rtt: Nanos::from_micros(62_500),
        standing_rtt: Nanos::from_micros(62_500),
        ..at(96, 96, 0)
    };
    let mut control = resumed();
    assert_mbps(control.on_tick(&m), 96.0);
    assert_eq!(control.phase(), Phase::Hold);
    assert_eq!(control.target_delay(RATE, Bytes(1500)), Nanos::from_micros(12_500));
}

#[test]
fn the_response_to_delay_is_beta_mu_over_the_rtt() {
    // The delay is 37.5 ms too long: 96 - 0.5 x 96 / 100 x 37.5.
    assert_mbps(resumed().on_tick(&at(96, 96, 50)), 78.0);
    // Without a queue it is 12.5 ms too short: 96 + 0.5 x 96 / 50 x 12.5.
    assert_mbps(resumed().on_tick(&at(96, 96, 0)), 108.0);
}

#[test]
fn the_share_alpha_of_the_spare_rate_is_used() {
    // With R = S on a path that is not full, Nimbus's formula takes the rest, 48 Mbit/s, for cross
    // traffic, and only the delay term acts.
    assert_mbps(resumed().on_tick(&at(48, 48, 0)), 60.0);
    // 90 of 100 sent were received: z = 96 x 100 / 90 - 100 = 6.667, so the spare rate gives
    // 0.8 x (96 - 6.667 - 100) = -8.533, and the missing queue 12 more.
    assert_mbps(resumed().on_tick(&at(100, 90, 0)), 103.4667);
}

#[test]
fn the_rate_never_falls_below_a_twentieth_of_the_bottleneck() {
    assert_mbps(resumed().on_tick(&at(6, 6, 500)), 4.8);
}

#[test]
fn the_threshold_decays_by_half_a_minimum_rtt_a_second() {
    let mut control = new();
    control.resume(RATE, &Measurement { now: MS * 9_990, ..at(96, 96, 100) });
    // It begins at 150 ms, three minima. A tick later it is at 149.75 ms.
    assert_mbps(control.on_tick(&at(96, 96, 100)), 96.0 - 0.5 * 96.0 / 150.0 * 0.25);
    let second = Measurement { now: MS * 11_000, ..at(96, 96, 100) };
    assert_mbps(control.on_tick(&second), 96.0 - 0.5 * 96.0 / 150.0 * 25.25);
    let late = Measurement { now: MS * 14_000, ..at(96, 96, 100) };
    assert_mbps(control.on_tick(&late), 96.0 - 0.5 * 96.0 / 150.0 * 87.5);
}

#[test]
fn the_bottleneck_is_the_highest_rate_of_a_second_with_a_queue() {
    let after = |ticks: u64, queue: u64| {
        let mut control = resumed();
        let thin = Measurement { limited_for: Nanos::ZERO, ..at(24, 24, queue) };
        for i in 0..ticks {
            control.on_tick(&Measurement { now: MS * (10_000 + 10 * i), ..thin });
        }
        control.bottleneck.get() / 1e6
    };
    assert_eq!((after(80, 13), after(101, 13)), (96.0, 24.0));
    assert_eq!(after(1_000, 6), 96.0);
    // A higher rate counts at once.
    let mut control = resumed();
    control.on_tick(&Measurement { limited_for: Nanos::ZERO, ..at(120, 120, 0) });
    assert_eq!(control.bottleneck.get(), 120e6);
}

#[test]
fn a_backlog_without_a_queue_on_the_path_doubles_mu() {
    let mut control = resumed();
    let mut tick = |i: u64, m: Measurement| {
        control.on_tick(&Measurement { now: MS * (10_000 + 10 * i), ..m });
        control.bottleneck.get() / 1e6
    };
    let mu: std::vec::Vec<_> = (0..=24).map(|i| tick(i, at(96, 96, 0))).collect();
    // It doubles every two rounds of 60 ms.
    assert_eq!([mu[11], mu[12], mu[23], mu[24]], [96.0, 192.0, 192.0, 384.0]);
    assert_eq!(tick(25, Measurement { busy_rate: Some(RATE), ..at(110, 90, 7) }), 96.0);
}

#[test]
fn slow_start_doubles_the_rate_sent_until_there_is_a_queue() {
    let mut control = new();
    let thin = Measurement { peak_sent: Bytes(20_000), ..at(1, 1, 0) };
    control.start(Rate::from_mbps(1), &thin);
    // 20 kB in 50 ms are 3.2 Mbit/s.
    assert_mbps(control.on_tick(&thin), 6.4);
    assert_eq!(control.phase(), Phase::SlowStart);
    let less = Measurement { peak_sent: Bytes(1_500), ..thin };
    assert_mbps(control.on_tick(&less), 6.4);
    let more = Measurement { peak_sent: Bytes(20_000), ..at(40, 40, 6) };
    assert_mbps(control.on_tick(&more), 80.0);
    // 7 ms are more than half of 12.5. The samples that waited show that the path serves 48.
    let queue = Measurement { busy_rate: Some(Rate::from_mbps(48)), ..at(60, 40, 7) };
    let rate = control.on_tick(&queue);
    assert_eq!((control.phase(), control.bottleneck.get()), (Phase::Hold, 48e6));
    // z = 48 x 60 / 40 - 60 = 12, so 60 + 0.8 x (48 - 12 - 60) + 0.5 x 48 / 57 x 5.5.
    assert_mbps(rate, 60.0 - 0.8 * 24.0 + 0.5 * 48.0 / 57.0 * 5.5);
}

#[test]
fn slow_start_always_allows_an_initial_window() {
    let mut control = new();
    let thin = Measurement { peak_sent: Bytes::ZERO, ..at(0, 0, 0) };
    control.start(Rate::ZERO, &thin);
    // Ten packets of 1500 B in 50 ms are 2.4 Mbit/s.
    assert_mbps(control.on_tick(&thin), 2.4);
}

#[test]
fn the_minimum_is_probed_for_every_four_seconds() {
    let mut control = resumed();
    let mut probes = [None; 4];
    let mut found = 0;
    for i in 0..1_200 {
        let now = MS * (10_000 + 10 * i);
        // The queue is gone 100 ms into a probe, so the minimum is seen.
        let seen = probes[..found].last().copied().flatten().is_some_and(|t| now > t + MS * 100)
            && control.phase() == Phase::Drain;
        let min_rtt_age = if seen { Nanos::ZERO } else { MS * 5_000 };
        let queue = if seen { 0 } else { 13 };
        let was = control.phase();
        let rate = control.on_tick(&Measurement { now, min_rtt_age, ..at(96, 96, queue) });
        if control.phase() == Phase::Drain && was != Phase::Drain {
            assert_mbps(rate, 72.0);
            probes[found] = Some(now);
            found += 1;
        }
    }
    // A round is 73 ms: 63 and 10 between samples. The first probe comes after four rounds, the
    // next ones four seconds after the last has ended.
    let probes = probes.map(|t| t.map_or(0, |t| t.0 / 1_000_000));
    assert_eq!(probes[3], 0, "{probes:?}");
    assert!((10_290..10_310).contains(&probes[0]), "{probes:?}");
    assert!((4_000..4_400).contains(&(probes[1] - probes[0])), "{probes:?}");
    assert!((4_000..4_400).contains(&(probes[2] - probes[1])), "{probes:?}");
}

#[test]
fn a_probe_ends_without_the_minimum_and_the_old_rate_follows() {
    let mut control = resumed();
    let m = Measurement { min_rtt_age: MS * 5_000, ..at(96, 96, 13) };
    let mut low = 0;
    let mut after = 0;
    for i in 0..100 {
        let rate = control.on_tick(&Measurement { now: MS * (10_000 + 10 * i), ..m });
        low += u64::from(rate == RATE.scaled(0.75));
        after += u64::from(rate == RATE && control.phase() == Phase::Drain);
    }
    // A probe of three rounds of 73 ms is followed by two round trips of 63 ms.
    assert_eq!((low, after), (22, 13));
}
