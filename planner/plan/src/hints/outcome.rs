//! The effect of hints: the network as it is, and as it would be if they were followed.

use crate::fairness;
use crate::hints::{Config, Hints, Setting, choose};
use crate::lp::SolveError;
use crate::paths::PathCache;
use crate::plan::{Report, Routing};
use crate::problem::{Freedom, Grain, Problem};

/// Compares the present routing with the best one in which all hints in `told` are followed.
///
/// [`crate::plan::plan`] proposes a routing in which every flow may move. This is what remains of
/// that proposal after prefixes and thresholds are respected.
///
/// # Errors
/// If the solver fails.
pub fn outcome(
    setting: Setting<'_>,
    paths: &mut PathCache,
    config: &Config,
    told: &Hints,
) -> Result<Report, SolveError> {
    let network = setting.network;
    let present = Routing::present(network, paths, &config.plan.method)?;
    let followed = choose::followed(setting, told);
    let after = Routing::inside(&followed, paths, &config.plan, &present)?;
    let free = Problem::new(network, paths, Freedom::Joint, Grain::Summed);
    let alone: Vec<f64> = fairness::alone(&free)?.into_iter().map(|r| r * free.unit).collect();
    Ok(Report::new(network, &present, &after, &alone, &fairness::weights(&free)))
}
