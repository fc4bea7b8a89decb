//! Tests of Copa with numbers computed by hand. At 96 Mbit/s and 50 ms, 400 packets of 1500 bytes
//! fill the path. At delta 0.125 the target is eight packets or 1 ms in the queue.

use super::*;
use crate::controller::quiet;

const MS: Nanos = Nanos::from_millis(1);
const RATE: Rate = Rate::from_mbps(96);

/// Returns a controller with 400 packets in its window whose last tick was 10 ms ago.
fn copa() -> Copa {
    let mut copa = Copa::new(CopaConfig::default(), Rate::from_mbps(1), Rate::from_mbps(1000));
    copa.resume(RATE, &Measurement { now: MS * 9_990, ..quiet() });
    copa
}

fn queued(micros: u64) -> Measurement {
    let rtt = MS * 50 + Nanos::from_micros(micros);
    Measurement { rtt, standing_rtt: rtt, ..quiet() }
}

#[test]
fn a_step_is_velocity_over_delta_and_window_for_each_packet_that_arrived() {
    // 80 packets arrive in 10 ms. Each moves the window by 1 / (0.125 * 400) = 0.02 packets, 1.6 in
    // all.
    let mut up = copa();
    up.on_tick(&queued(500));
    assert!((up.window - 401.6 * 1500.0).abs() < 1.0, "{}", up.window);
    assert_eq!(up.phase(), Phase::Probe);
    let mut down = copa();
    down.on_tick(&queued(2_000));
    assert!((down.window - 398.4 * 1500.0).abs() < 1.0, "{}", down.window);
    assert_eq!(down.phase(), Phase::Hold);
}

#[test]
fn the_direction_turns_where_the_rate_is_the_target() {
    // 400 packets over 51 ms are 7843 a second, and 1 / (0.125 dq) equals this at 1.02 ms.
    for (micros, direction) in [(1_019, Direction::Up), (1_022, Direction::Down)] {
        assert_eq!(copa().direction(&queued(micros)), direction, "{micros}");
    }
    assert_eq!(copa().target_delay(RATE, Bytes(1500)), MS);
}

#[test]
fn the_rate_is_the_window_over_the_standing_round_trip_time() {
    let mut copa = copa();
    let rate = copa.on_tick(&queued(10_000)).as_mbps_f64();
    assert!((rate - copa.window * 8e-6 / 0.060).abs() < 1e-3, "{rate}");
}

#[test]
fn slow_start_doubles_within_a_round_trip_and_ends_at_the_target() {
    let mut copa = copa();
    copa.start(Rate::from_mbps(12), &Measurement { now: MS * 9_990, ..quiet() });
    // It begins at twice the receive rate, with 100 packets.
    let m = |i: u64, received: u64| Measurement {
        now: MS * (10_000 + 10 * i),
        receive_rate: Rate::from_mbps(received),
        ..quiet()
    };
    for i in 0..5 {
        copa.on_tick(&m(i, 24));
    }
    assert!((copa.window - 200.0 * 1500.0).abs() < 1.0, "{}", copa.window);
    assert_eq!(copa.phase(), Phase::SlowStart);
    copa.on_tick(&Measurement { now: MS * 10_060, ..queued(6_000) });
    assert_eq!(copa.phase(), Phase::Hold);
}

#[test]
fn the_velocity_doubles_after_three_round_trips_in_one_direction_and_turns_to_one() {
    let mut velocity = Velocity::new(16.0);
    let mut now = MS;
    let mut tick = |window: f64| {
        now += MS * 50;
        velocity.on_tick(now, MS * 50, window)
    };
    let up = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].map(&mut tick);
    assert_eq!(up, [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 16.0]);
    let down = [7.0, 6.0, 5.0, 4.0].map(&mut tick);
    assert_eq!(down, [1.0, 1.0, 1.0, 2.0]);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut copa = copa();
    let before = copa.window;
    let m = Measurement { backlog: Bytes::ZERO, ..queued(0) };
    copa.on_tick(&m);
    assert_eq!(copa.window, before);
    assert_eq!(copa.phase(), Phase::Unused);
}
