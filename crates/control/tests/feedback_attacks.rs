//! The loop where somebody on the path delays feedback, or a receivebox with the key writes
//! impossible feedback. `cargo test --test feedback_attacks -- --nocapture` prints the figures.

mod common;

use common::path::{Change, Lies, Outcome, World};
use forebay_control::{Event, Mode, ModeReason};
use forebay_units::Nanos;

const MS: Nanos = Nanos::from_millis(1);

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

/// Runs a bundle of eight flows, with `changes` of the feedback from 10 s on.
fn run(mbps: u64, rtt: u64, seed: u64, guard: bool, changes: &[(f64, Change)]) -> Outcome {
    let mut world = World::new(mbps, rtt).bundles(1, 8);
    world.config.guard = guard;
    world.seed = seed;
    world.duration = s(40.0);
    world.changes = changes.iter().map(|&(at, change)| (s(at), change)).collect();
    world.run()
}

/// Runs three paths under `changes`. From 15 s on, the share `least` of the link must be used, and
/// the median queue must be below that without boxes, which fills the buffer of 200 ms.
fn keeps_its_rate(name: &str, least: f64, changes: &[(f64, Change)]) {
    let mut failed = vec![];
    for (mbps, rtt) in [(40, 50), (24, 20), (96, 100)] {
        for seed in 1..=3 {
            let o = run(mbps, rtt, seed, true, changes);
            let used = |o: &Outcome| o.utilisation(s(15.0), s(40.0));
            let waits = o.queue(0.5, s(15.0), s(40.0)).as_millis_f64();
            let without = run(mbps, rtt, seed, false, changes);
            println!(
                "{name}: {mbps} Mbit/s, {rtt} ms, seed {seed}: {:.3} in use ({:.3} without a \
                 guard), {:.3} in the first 5 s, median queue {waits:.1} ms",
                used(&o),
                used(&without),
                o.utilisation(s(10.0), s(15.0)),
            );
            if used(&o) < least || waits > 190.0 {
                failed.push((mbps, rtt, seed, used(&o), waits));
            }
        }
    }
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

fn delay(ms: u64, jitter_ms: u64) -> Change {
    Change::FeedbackDelay(0, MS * ms, MS * jitter_ms)
}

#[test]
fn delayed_feedback_does_not_keep_the_rate_low() {
    keeps_its_rate("100 ms", 0.8, &[(10.0, delay(100, 0))]);
    keeps_its_rate("200 ms", 0.8, &[(10.0, delay(200, 0))]);
    keeps_its_rate("500 ms", 0.8, &[(10.0, delay(500, 0))]);
}

#[test]
fn jittered_feedback_does_not_keep_the_rate_low() {
    keeps_its_rate("up to 30 ms", 0.8, &[(10.0, delay(0, 30))]);
    keeps_its_rate("up to 100 ms", 0.8, &[(10.0, delay(0, 100))]);
    keeps_its_rate("up to 300 ms", 0.8, &[(10.0, delay(0, 300))]);
    keeps_its_rate("up to 600 ms", 0.8, &[(10.0, delay(0, 600))]);
}

#[test]
fn feedback_that_is_delayed_now_and_then_does_not_keep_the_rate_low() {
    for period in [0.3, 1.0, 3.0] {
        let times =
            (0..).map(|i| (10.0 + period * f64::from(i), delay(200 * (1 - i as u64 % 2), 0)));
        let changes: Vec<_> = times.take_while(|(at, _)| *at < 40.0).collect();
        keeps_its_rate(&format!("200 ms every {period} s"), 0.8, &changes);
    }
}

/// Returns when the bundle opened for want of useful feedback; `None` if it did not.
fn opened(o: &Outcome) -> Option<Nanos> {
    let useless = |e: &Event| {
        let Event::ModeChanged { to: Mode::Open, reason, .. } = e else { return false };
        matches!(reason, ModeReason::UselessFeedback { .. })
    };
    o.events.iter().find(|(_, _, e)| useless(e)).map(|(at, ..)| *at)
}

#[test]
fn impossible_feedback_opens_the_bundle_within_a_second_and_is_said() {
    for lies in [Lies::Random, Lies::FrozenCounts, Lies::FrozenTime] {
        for seed in 1..=3 {
            let truth = (25.0, Change::Lies(0, Lies::None));
            let o = run(40, 50, seed, true, &[(10.0, Change::Lies(0, lies)), truth]);
            let cell = format!("{lies:?}, seed {seed}");
            let at = opened(&o).unwrap_or_else(|| panic!("{cell}: it did not open"));
            println!("{cell}: open at {at}");
            assert!((s(10.0)..s(11.1)).contains(&at), "{cell}: {at}");
            let limited = |from: f64, to: f64| {
                let ticks = o.ticks[0].iter().filter(|t| (s(from)..s(to)).contains(&t.0));
                ticks.filter(|t| t.1.is_some()).count()
            };
            assert_eq!(limited(11.1, 25.0), 0, "{cell}: it stays open while nothing is useful");
            assert!(limited(26.0, 40.0) > 1_300, "{cell}: it returns with the truth");
            assert!(o.events.len() < 300, "{cell}: {} events", o.events.len());
        }
    }
}

#[test]
fn feedback_of_which_half_is_impossible_does_not_keep_the_rate_low() {
    for lies in [Lies::Jumps, Lies::SmallJumps, Lies::TimeJumps] {
        for seed in 1..=3 {
            let o = run(40, 50, seed, true, &[(10.0, Change::Lies(0, lies))]);
            let cell = format!("{lies:?}, seed {seed}");
            let used = o.utilisation(s(10.0), s(40.0));
            assert!(used >= 0.95, "{cell}: {used}");
            assert!(o.events.len() < 300, "{cell}: {} events", o.events.len());
        }
    }
}
