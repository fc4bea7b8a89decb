//! The figures of one arm of a cell, its seeds pooled.

use forebay_lab::analysis::{Analysis, Delay, Sorted};
use forebay_lab::results::Run;
use forebay_lab::scenario::{Origin, Scenario};
use serde::{Deserialize, Serialize};

/// What is kept of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfRun {
    goodput: f64,
    slowdowns: Vec<f64>,
    unfinished: u64,
    round_trips: Vec<f64>,
    /// The waits at the bottleneck; `None` if no packet left it.
    bottleneck: Option<Delay>,
    /// The mode changes, tests and refused feedback of the control loops, in words.
    pub(crate) decisions: Vec<String>,
}

/// The most decisions that are kept of a run. The first ones show what went wrong.
const DECISIONS: usize = 12;

impl OfRun {
    pub(crate) fn new(scenario: &Scenario, run: &Run) -> Self {
        let analysis = Analysis::of(run);
        let own = |name: &str| {
            let mut all = scenario.traffic.iter();
            all.any(|t| t.name == name && matches!(t.from, Origin::Site(_)))
        };
        let by_traffic = &analysis.summary.goodput_by_traffic_mbps;
        let goodput = by_traffic.iter().filter(|(name, _)| own(name)).map(|(_, mbps)| mbps).sum();
        // Engines record the requests of bundles only.
        let slowdowns = analysis.slowdowns.all;
        let round_trips =
            run.round_trips.iter().filter(|r| (run.start.0..run.end.0).contains(&r.start));
        let round_trips = round_trips.map(|r| {
            // A lost one took at least as long as the rest of the run, or a second.
            let end = r.end.unwrap_or_else(|| run.end.0.min(r.start + 1_000_000_000).max(r.start));
            end.saturating_sub(r.start) as f64 / 1e6
        });
        Self {
            goodput,
            slowdowns: slowdowns.values.values().to_vec(),
            unfinished: slowdowns.unfinished,
            round_trips: round_trips.collect(),
            bottleneck: analysis.summary.bottleneck_queue_ms,
            decisions: decisions(run),
        }
    }
}

/// Returns the first mode changes, tests of guards and refusals of feedback.
fn decisions(run: &Run) -> Vec<String> {
    let told = run.events.iter().filter(|e| {
        matches!(
            e.kind.as_str(),
            "mode_changed" | "guard_tested" | "excess_received" | "impossible_feedback"
        )
    });
    told.take(DECISIONS).map(|e| format!("{:.1} s {}", e.time as f64 / 1e9, e.text)).collect()
}

/// The figures of one arm of a cell, over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The goodput of the bundle or the bundles, in Mbit/s: the mean over the seeds.
    pub goodput_mbps: f64,
    /// The median slowdown of requests.
    pub slowdown_p50: Option<f64>,
    /// The 99th percentile of slowdowns.
    pub slowdown_p99: Option<f64>,
    /// Requests that were not answered in time.
    pub unfinished: u64,
    /// Requests in all.
    pub requests: u64,
    /// The median round trip of closed loops, in ms.
    pub round_trip_p50_ms: Option<f64>,
    /// The 99th percentile of round trips of closed loops, in ms.
    pub round_trip_p99_ms: Option<f64>,
    /// The mean wait at the bottleneck, in ms.
    pub bottleneck_mean_ms: f64,
    /// The 99th percentile of waits at the bottleneck, in ms: the mean over the seeds.
    pub bottleneck_p99_ms: f64,
}

impl Figures {
    pub(crate) fn pooled(runs: &[OfRun]) -> Self {
        let count = runs.len().max(1) as f64;
        let slowdowns: Sorted = runs.iter().flat_map(|r| r.slowdowns.iter().copied()).collect();
        let trips: Sorted = runs.iter().flat_map(|r| r.round_trips.iter().copied()).collect();
        let mean = |of: fn(&Delay) -> f64| {
            runs.iter().filter_map(|r| r.bottleneck.as_ref()).map(of).sum::<f64>() / count
        };
        Self {
            goodput_mbps: runs.iter().map(|r| r.goodput).sum::<f64>() / count,
            slowdown_p50: slowdowns.percentile(50),
            slowdown_p99: slowdowns.percentile(99),
            unfinished: runs.iter().map(|r| r.unfinished).sum(),
            requests: slowdowns.len() as u64,
            round_trip_p50_ms: trips.percentile(50),
            round_trip_p99_ms: trips.percentile(99),
            bottleneck_mean_ms: mean(|delay| delay.mean),
            bottleneck_p99_ms: mean(|delay| delay.p99),
        }
    }
}
