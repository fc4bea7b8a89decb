//! Updates and decisions of PIE, compared with values calculated by hand.

use alloc::vec::Vec;

use super::*;

// An empty backlog, and one of two full frames.
const NONE: Backlog = Backlog { packets: 0, bytes: Bytes(0) };
const TWO: Backlog = Backlog { packets: 2, bytes: Bytes(3028) };

fn control(probability: f64, delay_ms: u64, old_delay_ms: u64) -> Control {
    Control {
        probability,
        delay: Nanos::from_millis(delay_ms),
        old_delay: Nanos::from_millis(old_delay_ms),
        ..Control::new(&Params::default(), 1)
    }
}

fn close(a: f64, b: f64) -> bool {
    let off = a - b;
    (-1e-12..=1e-12).contains(&off)
}

/// Steps are 0.125 (delay - 15 ms) + 1.25 (growth), divided by 2048, 128, 128 and 32 as the
/// probability rises.
#[test]
fn the_first_updates_match_the_formula() {
    let mut control = control(0.0, 0, 0);
    let steps = [
        // (0.125 x 0.020 + 1.25 x 0.035) / 2048
        (35, 0.000_022_583_007_812_5),
        // + 0.0025 / 128
        (35, 0.000_042_114_257_812_5),
        // + (0.125 x 0.025 + 1.25 x 0.005) / 128
        (40, 0.000_115_356_445_312_5),
        // + 0.003125 / 32
        (40, 0.000_213_012_695_312_5),
        // + (0.125 x 0.005 - 1.25 x 0.020) / 32 is below zero
        (20, 0.0),
    ];
    for (ms, expected) in steps {
        control.delay = Nanos::from_millis(ms);
        control.update(&Params::default(), TWO);
        assert!(close(control.probability, expected), "{ms} ms: {}", control.probability);
        assert_eq!(control.old_delay, Nanos::from_millis(ms));
    }
}

/// At 23 ms after 15 ms, the undivided step is 0.125 x 0.008 + 1.25 x 0.008 = 0.011.
#[test]
fn the_divisor_of_a_step_depends_on_the_probability() {
    let regions = [
        (0.0, 2048.0),
        (0.000_000_9, 2048.0),
        (0.000_001, 512.0),
        (0.000_01, 128.0),
        (0.000_1, 32.0),
        (0.001, 8.0),
        (0.01, 2.0),
        (0.099, 2.0),
        (0.1, 1.0),
        (0.9, 1.0),
    ];
    for (before, divisor) in regions {
        let mut control = control(before, 23, 15);
        control.update(&Params::default(), TWO);
        let step = control.probability - before;
        assert!(close(step, 0.011 / divisor), "{before}: {step}");
    }
}

#[test]
fn steps_are_capped_and_an_excessive_delay_adds_to_them() {
    let cases = [
        // 0.125 x 0.085 + 1.25 x 0.050 = 0.073, capped at 2 %.
        (0.2, 100, 50, 0.22),
        // Below 10 % there is no cap: half of 0.073.
        (0.05, 100, 50, 0.086_562_5),
        // 0.125 x 0.285 = 0.0356, capped at 2 %, and 2 % more above 250 ms.
        (0.2, 300, 300, 0.24),
        (0.2, 250, 250, 0.22),
        // A falling delay has the full gain: 0.125 x (0.1 - 0.015) - 1.25 x 0.1.
        (0.2, 100, 200, 0.085_625),
        (0.995, 300, 300, 1.0),
    ];
    for (before, delay, old, after) in cases {
        let mut control = control(before, delay, old);
        control.update(&Params::default(), TWO);
        assert!(close(control.probability, after), "{before}: {}", control.probability);
    }
}

/// An idle update subtracts 0.125 x 15 ms and a 64th of the rest. With a backlog it is not idle.
#[test]
fn the_probability_decays_when_idle() {
    for (backlog, after) in [(NONE, 0.498_125 * 63.0 / 64.0), (TWO, 0.498_125)] {
        let mut control = control(0.5, 0, 0);
        control.update(&Params::default(), backlog);
        assert!(close(control.probability, after), "{}", control.probability);
    }
}

#[test]
fn an_idle_queue_reaches_probability_zero_and_allows_a_burst_again() {
    let params = Params::default();
    let mut control = control(1.0, 0, 0);
    (control.burst, control.due) = (Nanos::ZERO, 0.5);
    let mut updates = 0;
    while control.burst == Nanos::ZERO {
        control.update(&params, NONE);
        updates += 1;
    }
    assert!(updates < 1000, "{updates} updates, more than one call makes");
    assert_eq!((control.burst, control.due), (params.burst_allowance, 0.0));
}

#[test]
fn the_burst_allowance_is_used_up_by_departures() {
    let params = Params::default();
    let mut control = control(0.5, 20, 20);
    let sojourn = Nanos::from_millis(20);
    for ms in [7, 50, 100, 156] {
        control.departed(Nanos::from_millis(ms), sojourn, TWO);
        assert!(!(0..50).any(|_| control.signals(&params, TWO, Bytes(1514))), "at {ms} ms");
    }
    control.departed(Nanos::from_millis(157), sojourn, TWO);
    assert!((0..50).any(|_| control.signals(&params, TWO, Bytes(1514))), "150 ms have passed");
}

/// Returns a controller without a burst allowance.
fn spent(probability: f64, delay_ms: u64) -> Control {
    Control { burst: Nanos::ZERO, ..control(probability, delay_ms, delay_ms) }
}

fn signalled(mut control: Control, params: &Params, backlog: Backlog, len: u64) -> usize {
    (0..10_000).filter(|_| control.signals(params, backlog, Bytes(len))).count()
}

#[test]
fn small_queues_and_short_delays_cause_no_signals() {
    let params = Params::default();
    assert_eq!(signalled(spent(0.15, 7), &params, TWO, 1514), 0);
    assert!(signalled(spent(0.15, 8), &params, TWO, 1514) > 0);
    assert!(signalled(spent(0.2, 0), &params, TWO, 1514) > 0);
    let small = Backlog { packets: 9, bytes: Bytes(3027) };
    assert_eq!(signalled(spent(0.5, 20), &params, small, 1514), 0);
}

/// Returns the shortest and the longest gap between two signals in packets, and the number of
/// signals.
fn gaps(mut control: Control, params: &Params) -> (usize, usize, usize) {
    let signals: Vec<_> =
        (0..100_000_usize).filter(|_| control.signals(params, TWO, Bytes(1514))).collect();
    let gaps = signals.windows(2).map(|pair| pair[1] - pair[0]);
    (gaps.clone().min().unwrap_or(0), gaps.max().unwrap_or(0), signals.len())
}

/// At 2 % a signal comes after 43 packets at the earliest (0.86 of a signal due) and after 425 at
/// the latest (8.5). The mean is 92 packets, 42 more than without derandomisation.
#[test]
fn derandomisation_bounds_the_gaps() {
    let (min, max, n) = gaps(spent(0.02, 20), &Params::default());
    assert!(min >= 43 && max <= 425, "{min} to {max}");
    assert!((1020..=1155).contains(&n), "{n}");
    let random = Params { derandomize: false, ..Params::default() };
    let (min, _, n) = gaps(spent(0.02, 20), &random);
    assert_eq!(min, 1);
    assert!((1850..=2150).contains(&n), "{n}");
}

#[test]
fn byte_mode_signals_small_packets_less_often() {
    let params = Params { byte_mode: true, derandomize: false, ..Params::default() };
    let full = signalled(spent(0.4, 20), &params, TWO, 1514);
    let half = signalled(spent(0.4, 20), &params, TWO, 757);
    let larger = signalled(spent(0.4, 20), &params, TWO, 9000);
    assert_eq!(full, larger);
    assert!((1800..2200).contains(&half) && (3800..4200).contains(&full), "{half} {full}");
}
