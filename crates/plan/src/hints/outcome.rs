//! What hints are for: the network as it is, and as it would be if they were followed.

use crate::fairness;
use crate::hints::{Config, Hints, Setting, choose};
use crate::lp::SolveError;
use crate::paths::PathCache;
use crate::plan::{Report, Routing};
use crate::problem::{Freedom, Grain, Problem};

/// The present routing beside the one in which all of `told` are followed and the paths inside are the best for that.
///
/// Beside [`crate::plan::plan`], whose proposal moves every flow at will, this is what prefixes and thresholds leave of it.
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
