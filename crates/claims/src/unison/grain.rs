//! Figure 3.12: what is lost when an aggregate, or a part of one, takes one way only.

use serde::Serialize;

use super::gain::config;
use super::stats::median;
use super::{PATHS, Progress, Setup, setting};
use forebay_plan::bench::processor_time;
use forebay_plan::lp::SolveError;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Routing, Scope};
use forebay_plan::topology::Topology;

/// The numbers of sub-flows that are tried.
pub(super) const SUB_FLOWS: [u16; 7] = [1, 2, 3, 4, 5, 7, 10];

/// Aggregates cut into some number of sub-flows: medians over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cut {
    /// Into how many.
    pub sub_flows: u16,
    /// How much less is carried than where flows may be split at will.
    pub gap: f64,
    /// The processor time of the plan, in seconds, paths being there.
    pub seconds: f64,
}

/// One topology.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grain {
    /// Its name.
    pub name: String,
    /// By number of sub-flows.
    pub cuts: Vec<Cut>,
}

pub(super) fn run(
    setup: &Setup<'_>,
    isp: &Topology,
    progress: Progress<'_>,
) -> Result<Grain, SolveError> {
    let mut paths = PathCache::new(PATHS);
    let mut found = vec![(Vec::new(), Vec::new()); SUB_FLOWS.len()];
    for seed in 1..=setup.seeds {
        let network =
            setting::network(isp, setup.topologies, setting::PROVIDERS, setup.congestion, seed);
        let at_will = config(Scope::All, None);
        let present = Routing::present(&network, &mut paths, &at_will.method)?;
        let best = Routing::proposed(&network, &mut paths, &at_will, &present)?.total();
        for (sub_flows, (gaps, seconds)) in SUB_FLOWS.iter().zip(&mut found) {
            progress(&format!("sub-flows: {}, seed {seed}, {sub_flows}", isp.name()));
            let config = config(Scope::All, Some(*sub_flows));
            let start = processor_time();
            let cut = Routing::proposed(&network, &mut paths, &config, &present)?;
            seconds.push(processor_time() - start);
            gaps.push(1.0 - cut.total() / best);
        }
    }
    let cuts = SUB_FLOWS.iter().zip(found).map(|(sub_flows, (gaps, seconds))| Cut {
        sub_flows: *sub_flows,
        gap: median(&gaps),
        seconds: median(&seconds),
    });
    Ok(Grain { name: isp.name().to_owned(), cuts: cuts.collect() })
}
