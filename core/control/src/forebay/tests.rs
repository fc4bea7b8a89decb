//! Tests of the control law with numbers computed by hand. 96 Mbit/s are 12 MB/s, which over 50 ms
//! is 600 kB in flight. The target is eight packets of 1500 B, 12 kB, and 250 us of noise, 3 kB:
//! 1.25 ms.

use super::*;
use crate::controller::quiet;
use std::vec;

const MS: Nanos = Nanos::from_millis(1);
const RATE: Rate = Rate::from_mbps(96);

fn controller() -> Forebay {
    let config = ForebayConfig { queue_packets: 8.0, ..ForebayConfig::default() };
    Forebay::new(config, Rate::from_mbps(1), Rate::from_mbps(1000))
}

/// Returns a controller that just saw the path serve 96 Mbit/s and has settled.
fn holding() -> Forebay {
    let mut controller = controller();
    controller.resume(RATE, &Measurement { now: MS * 9_900, ..quiet() });
    controller.last_tick = MS * 9_990;
    controller
}

/// Returns a measurement of the path with `queue` microseconds of queue and `in_flight` bytes.
fn queued(queue: u64, in_flight: u64) -> Measurement {
    let rtt = MS * 50 + Nanos::from_micros(queue);
    Measurement {
        rtt,
        standing_rtt: rtt,
        busy_rate: Some(RATE),
        unacknowledged: Bytes(in_flight),
        ..quiet()
    }
}

#[test]
fn the_rate_is_stable_with_the_packets_in_the_queue() {
    let mut controller = holding();
    let m = queued(1_250, 615_000);
    assert_eq!(controller.on_tick(&m), RATE);
    assert_eq!(controller.phase(), Phase::Hold);
    // The eight packets take the delay that is not noise.
    let dq = m.queueing_delay().as_secs_f64() - 250e-6;
    let packets = RATE.as_bytes_per_sec_f64() / 1500.0;
    assert!((packets - 1.0 / (0.125 * dq)).abs() < 1e-6 * packets);
    assert_eq!(controller.target_delay(RATE, Bytes(1500)), m.queueing_delay());
}

#[test]
fn bytes_in_flight_are_corrected_within_half_a_round_trip() {
    // 30 kB too much over 25 ms: 1.2 MB/s less.
    let rate = holding().on_tick(&queued(3_000, 645_000)).as_mbps_f64();
    assert!((rate - (96.0 - 9.6)).abs() < 0.01, "{rate}");
    // 3 kB too little over 25 ms: 0.12 MB/s more.
    let rate = holding().on_tick(&queued(1_000, 612_000)).as_mbps_f64();
    assert!((rate - (96.0 + 0.96)).abs() < 0.01, "{rate}");
}

#[test]
fn a_correction_takes_at_most_half_and_the_rate_at_most_the_window_over_the_path() {
    assert_eq!(holding().on_tick(&queued(40_000, 2_000_000)), RATE.scaled(0.5));
    // The window is 615 kB over 50 ms.
    let most = holding().on_tick(&queued(1_250, 0)).as_mbps_f64();
    assert!((most - 98.4).abs() < 0.01, "{most}");
}

#[test]
fn bytes_served_since_the_sample_are_not_in_flight() {
    // The sample left 735 kB 10 ms ago, of which 120 kB were served since.
    let m = Measurement { sample_age: MS * 10, ..queued(1_250, 735_000) };
    assert_eq!(holding().on_tick(&m), RATE);
}

#[test]
fn overdue_samples_stop_the_assumed_service_but_not_the_traffic() {
    let m = Measurement { sample_age: MS * 500, awaited_for: MS * 500, ..queued(1_250, 6_000_000) };
    assert_eq!(holding().on_tick(&m), RATE.scaled(KEEP_BLIND));
    // Where no feedback is awaited, none is overdue.
    let m = Measurement { awaited_for: Nanos::ZERO, ..m };
    assert!(holding().on_tick(&m) >= RATE);
}

#[test]
fn the_estimate_follows_the_rate_served() {
    let mut controller = holding();
    let half = Rate::from_mbps(48);
    for i in 0..30 {
        let m = Measurement {
            now: MS * (10_000 + i * 10),
            receive_rate: half,
            busy_rate: Some(half),
            ..queued(20_000, 600_000)
        };
        controller.on_tick(&m);
    }
    assert!((controller.capacity * 8e-6 - 48.0).abs() < 0.5, "{}", controller.capacity * 8e-6);
}

#[test]
fn an_unused_window_neither_grows_nor_shrinks() {
    for busy in [0, 2_000] {
        let mut controller = holding();
        for i in 0..500 {
            let m = Measurement {
                now: MS * (10_000 + i * 10),
                backlog: Bytes::ZERO,
                limited_for: Nanos::ZERO,
                peak_sent: Bytes(200_000),
                receive_rate: Rate::from_mbps(30),
                busy_rate: (busy > 0).then_some(Rate::from_mbps(30)),
                ..queued(busy, 200_000)
            };
            controller.on_tick(&m);
        }
        assert_eq!(controller.phase(), Phase::Unused);
        assert!((controller.capacity - 12e6).abs() < 1.0, "{}", controller.capacity);
    }
}

#[test]
fn the_window_grows_by_its_step_in_the_first_round_and_then_doubles() {
    let mut controller = holding();
    controller.velocity.rest(&TickInput::new(&quiet(), MS * 9_990, 0.0, &controller.config));
    let mut grown = vec![];
    let mut before = controller.capacity;
    for i in 0..24 {
        // The traffic fills the window.
        let fills = Bytes((controller.capacity * 0.05) as u64);
        controller.on_tick(&Measurement {
            now: MS * (10_000 + i * 10),
            peak_sent: fills,
            ..quiet()
        });
        if i % 6 == 5 {
            grown.push(controller.capacity - before);
            before = controller.capacity;
        }
    }
    assert_eq!(controller.phase(), Phase::Probe);
    // A round is 60 ms: 50 of the path and 10 between samples. 15 kB a round are 250 kB/s.
    for (grown, steps) in grown.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        let expected = 250e3 * steps;
        // The noise that the target covers grows with the rate, by less than 5 % here.
        assert!((0.999..1.05).contains(&(grown / expected)), "{grown} {expected}");
    }
}

#[test]
fn the_window_does_not_grow_on_old_samples_or_with_loss() {
    for m in [
        Measurement { sample_age: MS * 40, ..quiet() },
        Measurement { loss: 0.06, ..quiet() },
        // The latest sample saw a queue, although the standing RTT does not yet.
        Measurement { rtt: MS * 51, ..quiet() },
    ] {
        let mut controller = holding();
        controller.on_tick(&m);
        assert_eq!(controller.phase(), Phase::Unused, "{m:?}");
    }
}

#[test]
fn slow_start_leaves_room_for_traffic_that_limits_itself() {
    let mut controller = controller();
    let m = Measurement { peak_sent: Bytes(50_000), backlog: Bytes::ZERO, ..quiet() };
    controller.start(Rate::from_mbps(8), &m);
    assert_eq!(controller.phase(), Phase::SlowStart);
    // 50 kB in 50 ms are 8 Mbit/s.
    assert_eq!(controller.on_tick(&m), Rate::from_mbps(16));
    controller.on_tick(&Measurement { now: m.now + MS * 10, ..m });
    assert_eq!(controller.capacity * 8e-6, 16.0);
}

#[test]
fn slow_start_begins_with_a_window_and_grows_by_half_a_round_while_packets_wait() {
    let started = |backlog| {
        let mut controller = controller();
        let m = Measurement { backlog: Bytes(backlog), ..quiet() };
        controller.start(Rate::from_mbps(1), &m);
        controller.on_tick(&m);
        let first = controller.capacity * 8e-6;
        for i in 1..=5 {
            controller.on_tick(&Measurement { now: m.now + MS * (10 * i), ..m });
        }
        (first, controller.capacity * 8e-6 / first)
    };
    // Ten packets in 50 ms are 2.4 Mbit/s, and a quarter of 200 kB 8 Mbit/s.
    for (backlog, expected) in [(1_000, 2.4), (200_000, 8.0)] {
        let (first, grown) = started(backlog);
        assert!((first / expected - 1.0).abs() < 1e-6, "{first} {expected}");
        // 1.081^5 = 1.476 in a round of 50 ms.
        assert!((grown - 1.476).abs() < 0.001, "{grown}");
    }
}

#[test]
fn slow_start_does_not_go_on_once_a_sample_saw_a_queue() {
    let mut controller = controller();
    let arrives = Rate::from_mbps(20);
    let m = Measurement { receive_rate: arrives, rtt: MS * 56, ..quiet() };
    controller.start(arrives, &m);
    controller.capacity = 10e6;
    assert_eq!(controller.on_tick(&m), arrives.scaled(CAUTION));
    assert_eq!(controller.phase(), Phase::SlowStart);
}

#[test]
fn a_train_that_waited_in_a_queue_ends_slow_start() {
    let mut controller = controller();
    let m = Measurement {
        train_rate: Some(RATE),
        receive_rate: Rate::from_mbps(20),
        ..queued(4_000, 600_000)
    };
    controller.start(Rate::from_mbps(20), &m);
    controller.capacity = 40e6;
    controller.on_tick(&m);
    assert_eq!(controller.phase(), Phase::Hold);
    assert!((controller.capacity - 12e6).abs() < 1.0, "{}", controller.capacity);
}

#[test]
fn an_old_minimum_is_probed_for_until_it_is_seen() {
    let mut controller = holding();
    let tick = |controller: &mut Forebay, ms: u64, age: u64, queue: u64| {
        let m = Measurement { now: MS * ms, min_rtt_age: MS * age, ..queued(queue, 615_000) };
        controller.on_tick(&m);
        controller.phase()
    };
    let mut probes = vec![];
    for i in 0..1200 {
        let ms = 10_000 + i * 10;
        // The minimum is seen 100 ms into each probe.
        let dipping = controller.phase() == Phase::Drain;
        let began = probes.last().copied().unwrap_or(0);
        let seen = dipping && ms - began >= 100;
        let phase =
            tick(&mut controller, ms, if seen { 0 } else { 5_000 }, if seen { 0 } else { 1_250 });
        if phase == Phase::Drain && !dipping {
            probes.push(ms);
        }
    }
    // The first minimum is not verified, so its probe comes after four rounds of 61.25 ms. The next
    // ones come every four seconds plus the length of a probe.
    assert_eq!(probes.len(), 3, "{probes:?}");
    assert!((10_240..10_400).contains(&probes[0]), "{probes:?}");
    assert!((4_000..4_300).contains(&(probes[1] - probes[0])), "{probes:?}");
}

#[test]
fn the_rate_stays_within_its_bounds() {
    let mut controller =
        Forebay { min_rate: Rate::from_mbps(90), max_rate: Rate::from_mbps(95), ..controller() };
    controller.resume(RATE, &quiet());
    assert_eq!(controller.on_tick(&queued(40_000, 2_000_000)), Rate::from_mbps(90));
    assert_eq!(controller.on_tick(&queued(1_250, 615_000)), Rate::from_mbps(95));
}
