//! The loop where somebody on the path delays feedback, or a receivebox with the key writes
//! impossible feedback. `cargo test --test it feedback_attacks -- --nocapture` prints the figures.

use crate::common::path::{Change, Lies, Outcome, World};
use crate::common::seeds::{Seeds, tests_over_seeds};
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

/// A name, and the changes of the feedback.
type Attack = (String, Vec<(f64, Change)>);

fn delay(ms: u64, jitter_ms: u64) -> Change {
    Change::FeedbackDelay(0, MS * ms, MS * jitter_ms)
}

fn delayed() -> Vec<Attack> {
    [100, 200, 500].map(|ms| (format!("{ms} ms"), vec![(10.0, delay(ms, 0))])).into()
}

fn jittered() -> Vec<Attack> {
    [30, 100, 300, 600].map(|ms| (format!("up to {ms} ms"), vec![(10.0, delay(0, ms))])).into()
}

fn delayed_now_and_then() -> Vec<Attack> {
    let attack = |period: f64| {
        let times =
            (0..).map(|i| (10.0 + period * f64::from(i), delay(200 * (1 - i as u64 % 2), 0)));
        (format!("200 ms every {period} s"), times.take_while(|(at, _)| *at < 40.0).collect())
    };
    [0.3, 1.0, 3.0].map(attack).into()
}

/// Runs three paths under each attack. From 15 s on, 0.8 of the link must be used, and the median
/// queue must be below that without boxes, which fills the buffer of 200 ms. With several seeds the
/// figures without a guard are printed too.
fn keep_their_rate(attacks: Vec<Attack>, seeds: Seeds) {
    let compares = seeds.end() > seeds.start();
    let paths = [(40, 50), (24, 20), (96, 100)];
    let runs = paths.into_iter().flat_map(|path| seeds.clone().map(move |seed| (path, seed)));
    for (name, changes) in attacks {
        let mut failed = vec![];
        for ((mbps, rtt), seed) in runs.clone() {
            let o = run(mbps, rtt, seed, true, &changes);
            let used = |o: &Outcome| o.utilisation(s(15.0), s(40.0));
            let waits = o.queue(0.5, s(15.0), s(40.0)).as_millis_f64();
            let without = compares.then(|| used(&run(mbps, rtt, seed, false, &changes)));
            let without = without.map(|used| format!(" ({used:.3} without a guard)"));
            println!(
                "{name}: {mbps} Mbit/s, {rtt} ms, seed {seed}: {:.3} in use{}, {:.3} in the first \
                 5 s, median queue {waits:.1} ms",
                used(&o),
                without.unwrap_or_default(),
                o.utilisation(s(10.0), s(15.0)),
            );
            if used(&o) < 0.8 || waits > 190.0 {
                failed.push((mbps, rtt, seed, used(&o), waits));
            }
        }
        assert!(failed.is_empty(), "{name}: {failed:?}");
    }
}

fn delayed_feedback_does_not_keep_the_rate_low(seeds: Seeds) {
    keep_their_rate(delayed(), seeds);
}

fn jittered_feedback_does_not_keep_the_rate_low(seeds: Seeds) {
    keep_their_rate(jittered(), seeds);
}

fn feedback_that_is_delayed_now_and_then_does_not_keep_the_rate_low(seeds: Seeds) {
    keep_their_rate(delayed_now_and_then(), seeds);
}

/// Returns when the bundle opened for want of useful feedback; `None` if it did not.
fn opened(o: &Outcome) -> Option<Nanos> {
    let useless = |e: &Event| {
        let Event::ModeChanged { to: Mode::Open, reason, .. } = e else { return false };
        matches!(reason, ModeReason::UselessFeedback { .. })
    };
    o.events.iter().find(|(_, _, e)| useless(e)).map(|(at, ..)| *at)
}

fn impossible_feedback_opens_the_bundle_within_a_second_and_is_said(seeds: Seeds) {
    for lies in [Lies::Random, Lies::FrozenCounts, Lies::FrozenTime] {
        for seed in seeds.clone() {
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

fn feedback_of_which_half_is_impossible_does_not_keep_the_rate_low(seeds: Seeds) {
    for lies in [Lies::Jumps, Lies::SmallJumps, Lies::TimeJumps] {
        for seed in seeds.clone() {
            let o = run(40, 50, seed, true, &[(10.0, Change::Lies(0, lies))]);
            let cell = format!("{lies:?}, seed {seed}");
            let used = o.utilisation(s(10.0), s(40.0));
            assert!(used >= 0.95, "{cell}: {used}");
            assert!(o.events.len() < 300, "{cell}: {} events", o.events.len());
        }
    }
}

tests_over_seeds! {
    delayed_feedback_does_not_keep_the_rate_low: 3;
    jittered_feedback_does_not_keep_the_rate_low: 3;
    feedback_that_is_delayed_now_and_then_does_not_keep_the_rate_low: 3;
    impossible_feedback_opens_the_bundle_within_a_second_and_is_said: 3;
    feedback_of_which_half_is_impossible_does_not_keep_the_rate_low: 3;
}
