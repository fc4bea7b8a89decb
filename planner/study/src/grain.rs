//! Figure 3.12: the loss when an aggregate, or a part of one, takes a single path.

use forebay_plan::bench::processor_time;
use forebay_plan::lp::SolveError;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Routing, Scope};
use forebay_plan::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::gain::config;
use crate::stats::median;
use crate::{PATHS, Progress, Setup, setting};

/// The numbers of sub-flows that are tried.
pub(super) const SUB_FLOWS: [u16; 7] = [1, 2, 3, 4, 5, 7, 10];

/// The results with one number of sub-flows: medians over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The number of sub-flows of an aggregate.
    pub sub_flows: u16,
    /// The share that is lost against flows that may be split at will.
    pub gap: f64,
    /// The processor time of the plan, in seconds, without the search for paths.
    pub seconds: f64,
}

/// The results on one topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grain {
    /// The topology's name.
    pub name: String,
    /// The results by number of sub-flows.
    pub cuts: Vec<Cut>,
}

/// Runs figure 3.12 on one topology.
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
