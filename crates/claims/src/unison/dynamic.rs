//! Figure 3.11: demands change while a plan is in force, which was made of the window before.
//!
//! The text's traffic was measured on a campus and is not public. Here each aggregate's demand goes up and down around
//! its mean, with a memory of some steps, and each provider's as a whole likewise: what is planned of the last few steps
//! is about right, and of the last many it is about the mean.

use serde::Serialize;

use super::gain::{config, more};
use super::stats::mean;
use super::{PATHS, Progress, Setup, setting};
use forebay_plan::lp::SolveError;
use forebay_plan::network::{Demand, Network};
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Routing, Scope};
use forebay_plan::synthetic::Draw;
use forebay_plan::topology::Topology;

/// The windows that are tried, in steps.
pub(super) const WINDOWS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Steps over which routings are compared, after one of the longest windows.
const STEPS: usize = 64;
/// What is left of a deviation after a step.
const MEMORY: f64 = 0.9;
/// By how much a step may change a demand, of its mean: a deviation of about 0.4 in the long run.
const SHOCK: f64 = 0.3;

/// How one window does, over early exit on the same demands: means over all steps and seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Its length in steps.
    pub steps: usize,
    /// Where a flow may send no more than the plan gave it, on the ways of the plan.
    pub reserved: f64,
    /// Where it may send more, if there is room on the ways of the plan: as senders do that find out what they get.
    pub shared: f64,
}

/// One topology.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dynamic {
    /// Its name.
    pub name: String,
    /// By window.
    pub windows: Vec<Window>,
}

/// Values that go up and down around one.
struct Wander {
    values: Vec<f64>,
}

impl Wander {
    fn new(count: usize) -> Self {
        Self { values: vec![1.0; count] }
    }

    fn step(&mut self, draw: &mut Draw) {
        for value in &mut self.values {
            let shock = SHOCK * (2.0 * draw.unit() - 1.0);
            *value = (1.0 + MEMORY * (*value - 1.0) + shock).max(0.01);
        }
    }
}

/// The demands of each step.
fn series(network: &Network, steps: usize, seed: u64) -> Vec<Vec<Demand>> {
    let draw = &mut Draw::new(seed ^ 0x5eed);
    let mut own = Wander::new(network.demands.len());
    let mut whole = Wander::new(network.providers.len());
    let mut out = Vec::with_capacity(steps);
    for _ in 0..steps {
        own.step(draw);
        whole.step(draw);
        let now = network.demands.iter().zip(&own.values).map(|(d, value)| Demand {
            rate: d.rate.scaled(value * whole.values[d.provider as usize]),
            ..*d
        });
        out.push(now.collect());
    }
    out
}

/// The mean of some steps.
fn estimate(network: &Network, steps: &[Vec<Demand>]) -> Network {
    let demands = network.demands.iter().enumerate().map(|(at, demand)| {
        let sum: f64 = steps.iter().map(|s| s[at].rate.as_bps() as f64).sum();
        Demand { rate: forebay_units::Rate::from_bps_f64(sum / steps.len() as f64), ..*demand }
    });
    Network { demands: demands.collect(), ..network.clone() }
}

pub(super) fn run(
    setup: &Setup<'_>,
    isp: &Topology,
    progress: Progress<'_>,
) -> Result<Dynamic, SolveError> {
    let mut paths = PathCache::new(PATHS);
    let config = config(Scope::All, None);
    let longest = WINDOWS.into_iter().max().unwrap_or(1);
    let mut gains = vec![(Vec::new(), Vec::new()); WINDOWS.len()];
    for seed in 1..=setup.seeds {
        let network =
            setting::network(isp, setup.topologies, setting::PROVIDERS, setup.congestion, seed);
        let series = series(&network, longest + STEPS, seed);
        let mut baseline = Vec::with_capacity(STEPS);
        for demands in &series[longest..] {
            let now = Network { demands: demands.clone(), ..network.clone() };
            baseline.push(Routing::present(&now, &mut paths, &config.method)?);
        }
        for (window, (reserved, shared)) in WINDOWS.iter().zip(&mut gains) {
            progress(&format!("dynamic traffic: {}, seed {seed}, window {window}", isp.name()));
            let mut plan = None;
            for (step, before) in baseline.iter().enumerate() {
                let at = longest + step;
                let now = Network { demands: series[at].clone(), ..network.clone() };
                if step % window == 0 {
                    let seen = estimate(&network, &series[at - window..at]);
                    let present = Routing::present(&seen, &mut paths, &config.method)?;
                    plan = Some(Routing::proposed(&seen, &mut paths, &config, &present)?);
                }
                let Some(plan) = &plan else { continue };
                reserved.push(more(before.total(), plan.reserved(&now)));
                shared.push(more(before.total(), plan.kept(&now, &config.method)?.total()));
            }
        }
    }
    let windows = WINDOWS.iter().zip(gains).map(|(steps, (reserved, shared))| Window {
        steps: *steps,
        reserved: mean(&reserved),
        shared: mean(&shared),
    });
    Ok(Dynamic { name: isp.name().to_owned(), windows: windows.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_plan::synthetic::plane;

    #[test]
    fn demands_go_up_and_down_around_their_means() {
        let isp = plane(8, 1.4, &mut Draw::new(1));
        let network = setting::network(&isp, std::slice::from_ref(&isp), 20, 0.5, 1);
        let series = series(&network, 400, 1);
        let total =
            |demands: &[Demand]| demands.iter().map(|d| d.rate.as_bps() as f64).sum::<f64>();
        let totals: Vec<f64> = series.iter().map(|s| total(s) / total(&network.demands)).collect();
        assert!((mean(&totals) - 1.0).abs() < 0.15, "{}", mean(&totals));
        // Of one aggregate: a deviation of 0.3 / sqrt(3 (1 - 0.81)) = 0.4, and as much from the provider's.
        let one: Vec<f64> = series
            .iter()
            .map(|s| s[0].rate.as_bps() as f64 / network.demands[0].rate.as_bps() as f64)
            .collect();
        let spread = mean(&one.iter().map(|v| (v - 1.0) * (v - 1.0)).collect::<Vec<_>>()).sqrt();
        assert!((0.3..1.0).contains(&spread), "{spread}");
        let estimated = estimate(&network, &series[..2]);
        let expected = (series[0][0].rate.as_bps() + series[1][0].rate.as_bps()) as f64 / 2.0;
        assert!((estimated.demands[0].rate.as_bps() as f64 - expected).abs() <= 1.0);
    }
}
