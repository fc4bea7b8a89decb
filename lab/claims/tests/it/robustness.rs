//! Simulates paths, clocks and feedback that misbehave. No controller may leave the bundle worse
//! off than without boxes for longer than the claim's bar. These tests run one seed. The tests of
//! the same names in the module `measured` run all seeds of the claims.

use std::path::Path;

use forebay_claims::judge::Verdict;
use forebay_claims::scenarios::{self, Settings};
use forebay_lab::engine::Interrupt;
use forebay_lab::sim_engine::Sim;

/// Asserts that all figures of a run with this many seeds, or those of the claim, are within their
/// bands, except those that begin with one of `exceptions`.
pub(crate) fn holds_but(id: &str, exceptions: &[&str], seeds: Option<u32>) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/robustness");
    let catalogue = scenarios::load(&dir).unwrap();
    let claim = catalogue.claims.iter().find(|c| c.id == id).unwrap();
    let settings = Settings { seeds, ..Settings::default() };
    let outcome = scenarios::run(claim, &Sim, settings, &Interrupt::default()).unwrap();
    for figure in &outcome.figures {
        assert!(figure.value.is_some(), "{}: there is traffic", figure.what);
        let outside = figure.verdict == Verdict::Outside;
        let known = exceptions.iter().any(|e| figure.what.starts_with(e));
        assert_eq!(outside, known, "{}: {:?}", figure.what, figure.value);
    }
    let tally = outcome.tally(claim);
    assert_eq!(tally.bars * 2, tally.rows, "of each controller one figure is judged");
}

fn holds(id: &str) {
    holds_but(id, &[], Some(1));
}

/// The figures of the claim `rate` that are outside of their bands: BBR takes four seconds to find
/// four times the rate, since it probes every eight round trips.
pub(crate) const SLOW: &[&str] = &["BBR: longest time"];

#[test]
fn a_rate_that_quadruples_and_falls_back() {
    holds_but("rate", SLOW, Some(1));
}

#[test]
fn a_route_that_becomes_longer_and_shorter() {
    holds("route");
}

#[test]
fn clocks_that_jump() {
    holds("clocks");
}

#[test]
fn feedback_that_is_lost() {
    holds("feedback-loss");
}

#[test]
fn packets_that_are_lost() {
    holds("loss");
}

#[test]
fn thin_traffic_and_silence_before_a_backlog() {
    holds("idle");
}
