//! Figure 3.11: demands change while a plan is in force that was made from the window before.
//!
//! The traffic of the thesis was measured on a campus and is not public. Here the demand of each
//! aggregate varies around its mean with a memory of some steps, and so does the total of each
//! provider. A plan from the last few steps is about right; a plan from many steps is about the
//! mean.

use forebay_plan::lp::SolveError;
use forebay_plan::network::{Demand, Network};
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Routing, Scope};
use forebay_plan::synthetic::Draw;
use forebay_plan::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::gain::{config, more};
use crate::stats::mean;
use crate::{PATHS, Progress, Setup, setting};

/// The windows that are tried, in steps.
pub(super) const WINDOWS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The number of steps over which routings are compared, after the longest window.
const STEPS: usize = 64;
/// The share of a deviation that remains after a step.
const MEMORY: f64 = 0.9;
/// The largest change of a demand in a step, as a share of its mean. In the long run it gives a
/// standard deviation of about 0.4.
const SHOCK: f64 = 0.3;

/// The gains with one window over early exit on the same demands: means over all steps and seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The length of the window in steps.
    pub steps: usize,
    /// The gain if a flow may send no more than the plan gave it.
    pub reserved: f64,
    /// The gain if a flow may send more where the plan's paths have room.
    pub shared: f64,
}

/// The results on one topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dynamic {
    /// The topology's name.
    pub name: String,
    /// The results by window.
    pub windows: Vec<Window>,
}

/// Values that vary around one.
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

/// The network with the mean demands of some steps.
fn estimate(network: &Network, steps: &[Vec<Demand>]) -> Network {
    let demands = network.demands.iter().enumerate().map(|(at, demand)| {
        let sum: f64 = steps.iter().map(|s| s[at].rate.as_bps() as f64).sum();
        Demand { rate: forebay_units::Rate::from_bps_f64(sum / steps.len() as f64), ..*demand }
    });
    Network { demands: demands.collect(), ..network.clone() }
}

/// Runs figure 3.11 on one topology.
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
    fn demands_vary_around_their_means() {
        let isp = plane(8, 1.4, &mut Draw::new(1));
        let network = setting::network(&isp, std::slice::from_ref(&isp), 20, 0.5, 1);
        let series = series(&network, 400, 1);
        let total =
            |demands: &[Demand]| demands.iter().map(|d| d.rate.as_bps() as f64).sum::<f64>();
        let totals: Vec<f64> = series.iter().map(|s| total(s) / total(&network.demands)).collect();
        assert!((mean(&totals) - 1.0).abs() < 0.15, "{}", mean(&totals));
        // An aggregate deviates by 0.3 / sqrt(3 (1 - 0.81)) = 0.4, and by as much through its
        // provider.
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
