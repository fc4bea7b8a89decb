//! Experiments whose paths, clocks and feedback misbehave, simulated: no controller of the bundle may
//! leave it worse off than without boxes for longer than two seconds.
//! `cargo test -p forebay-lab --test robustness -- --nocapture` prints a table.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::results::Run;
use forebay_lab::scenario::{Scenario, load};
use forebay_lab::sim_engine::Sim;
use forebay_units::Nanos;

/// What is compared: long enough for a sawtooth of TCP.
const SPAN: Nanos = Nanos::from_millis(400);
/// The share of what is read without boxes that is not worse: what varies between two runs of TCP.
const AS_GOOD: f64 = 0.85;

/// So many spans in a row may be worse: two seconds; but BBR finds a quarter more every eight round
/// trips, no faster, so four times the rate takes it four seconds.
fn most(experiment: &str, arm: &str) -> usize {
    if (experiment, arm) == ("robustness-rate", "bbr") { 10 } else { 5 }
}

/// The bytes that receivers read, by span of the measured time.
fn read(run: &Run) -> Vec<u64> {
    let mut spans = vec![0; (run.duration().0 / SPAN.0) as usize];
    for progress in &run.progress {
        let since = progress.time.checked_sub(run.start.0 + 1);
        let span = since.and_then(|since| spans.get_mut((since / SPAN.0) as usize));
        span.into_iter().for_each(|bytes| *bytes += progress.bytes);
    }
    spans
}

/// The most spans in a row with less than without boxes.
fn longest_worse(boxes: &[u64], quo: &[u64]) -> usize {
    let worse = |(&boxes, &quo): (&u64, &u64)| (boxes as f64) < AS_GOOD * quo as f64;
    let spans: Vec<bool> = boxes.iter().zip(quo).map(worse).collect();
    spans.split(|worse| !worse).map(<[bool]>::len).max().unwrap_or(0)
}

fn run(scenario: &Scenario, arm: usize, seed: u64) -> Run {
    let job = Job { scenario, arm: &scenario.arms[arm], seed };
    Sim.run(&job, &Interrupt::default(), &mut |_| {}).unwrap()
}

fn never_worse(name: &str) {
    let file = format!("{}/../../experiments/bundler/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let experiment = load(Path::new(&file)).unwrap();
    let scenario = &experiment.cells[0];
    let mut failed = vec![];
    for &seed in &experiment.seeds {
        let quo = read(&run(scenario, 0, seed));
        assert!(quo.iter().sum::<u64>() > 10_000_000, "{name}: there is traffic");
        for (arm, described) in scenario.arms.iter().enumerate().skip(1) {
            let own = read(&run(scenario, arm, seed));
            let spans = longest_worse(&own, &quo);
            let share = own.iter().sum::<u64>() as f64 / quo.iter().sum::<u64>() as f64;
            let arm = &described.name;
            println!(
                "{name:>25} {arm:>11} #{seed}: worse for {:.1} s, {share:.3} of the bytes",
                spans as f64 * SPAN.as_secs_f64()
            );
            if spans > most(name, arm) {
                failed.push((arm, seed, spans));
            }
        }
    }
    assert!(failed.is_empty(), "{name}: too many spans of {SPAN}: {failed:?}");
}

#[test]
fn a_rate_that_quadruples_and_falls_back() {
    never_worse("robustness-rate");
}

#[test]
fn a_route_that_becomes_longer_and_shorter() {
    never_worse("robustness-route");
}

#[test]
fn clocks_that_jump() {
    never_worse("robustness-clocks");
}

#[test]
fn feedback_that_is_lost() {
    never_worse("robustness-feedback-loss");
}

#[test]
fn packets_that_are_lost() {
    never_worse("robustness-loss");
}

#[test]
fn thin_traffic_and_silence_before_a_backlog() {
    never_worse("robustness-idle");
}
