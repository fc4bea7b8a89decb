//! Figures 3.7 and 3.8: the gains of the ISP and its providers, over early exit and over what the
//! ISP can do alone.

use forebay_plan::allocate::{Method, Wba};
use forebay_plan::lp::SolveError;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Config, Routing, Scope};
use forebay_plan::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::stats::{median, spearman};
use crate::{PATHS, Progress, Setup, setting};

/// The gains on one topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The topology's name.
    pub name: String,
    /// The number of routers.
    pub routers: usize,
    /// The mean number of links of a router.
    pub degree: f64,
    /// The gain of Unison over early exit, for each seed.
    pub unison: Vec<f64>,
    /// The gain of optimising only the paths inside, for each seed.
    pub intra: Vec<f64>,
    /// The gain of Unison with whole aggregates, for each seed; empty for large topologies.
    pub whole: Vec<f64>,
    /// The share of the demand that early exit carries, for each seed.
    pub carried: Vec<f64>,
    /// The gains of each provider and seed over early exit: under Unison, and with paths inside
    /// only.
    pub providers: Vec<(f64, f64)>,
}

/// The largest number of routers with which whole aggregates are tried. Larger networks have some
/// hundred thousand paths.
const WHOLE: usize = 60;

/// The planner's configuration.
pub(super) fn config(scope: Scope, sub_flows: Option<u16>) -> Config {
    Config { method: Method::Wba(Wba::default()), scope, sub_flows, paths: PATHS }
}

/// The gain of `b` over `a`: their ratio less one.
pub(super) fn more(a: f64, b: f64) -> f64 {
    if a > 0.0 { b / a - 1.0 } else { 0.0 }
}

/// Runs figures 3.7 and 3.8 on one topology.
pub(super) fn run(
    setup: &Setup<'_>,
    isp: &Topology,
    progress: Progress<'_>,
) -> Result<Gain, SolveError> {
    let mut out = Gain {
        name: isp.name().to_owned(),
        routers: isp.routers().len(),
        degree: setting::degree(isp),
        unison: Vec::new(),
        intra: Vec::new(),
        whole: Vec::new(),
        carried: Vec::new(),
        providers: Vec::new(),
    };
    let mut paths = PathCache::new(PATHS);
    for seed in 1..=setup.seeds {
        progress(&format!("gain: {}, seed {seed}", out.name));
        let network =
            setting::network(isp, setup.topologies, setting::PROVIDERS, setup.congestion, seed);
        let all = config(Scope::All, None);
        let present = Routing::present(&network, &mut paths, &all.method)?;
        let unison = Routing::proposed(&network, &mut paths, &all, &present)?;
        let inside = config(Scope::Intra, None);
        let intra = Routing::proposed(&network, &mut paths, &inside, &present)?;
        out.unison.push(more(present.total(), unison.total()));
        out.intra.push(more(present.total(), intra.total()));
        let asked: f64 = network.demands.iter().map(|d| d.rate.as_bps() as f64).sum();
        out.carried.push(present.total() / asked);
        let each = [&present, &unison, &intra].map(Routing::by_provider);
        let [before, unison, intra] = &each;
        for ((before, unison), intra) in before.iter().zip(unison).zip(intra) {
            out.providers.push((more(*before, *unison), more(*before, *intra)));
        }
        if isp.routers().len() <= WHOLE {
            let whole = config(Scope::All, Some(1));
            let whole = Routing::proposed(&network, &mut paths, &whole, &present)?;
            out.whole.push(more(present.total(), whole.total()));
        }
    }
    Ok(out)
}

/// Spearman's rank correlation of degree and Unison's gain over paths inside alone, over
/// topologies. That is the gain by where traffic enters, by which the thesis explains the influence
/// of the degree (section 3.5.2).
pub(super) fn entries_by_degree(gains: &[Gain]) -> f64 {
    let more = |g: &Gain| -> f64 {
        let each: Vec<f64> = g.unison.iter().zip(&g.intra).map(|(u, i)| u - i).collect();
        median(&each)
    };
    let pairs: Vec<(f64, f64)> = gains.iter().map(|g| (g.degree, more(g))).collect();
    spearman(&pairs)
}

/// Spearman's rank correlation of degree and gain over early exit, over topologies.
pub(super) fn by_degree(gains: &[Gain]) -> f64 {
    let pairs: Vec<(f64, f64)> = gains.iter().map(|g| (g.degree, median(&g.unison))).collect();
    spearman(&pairs)
}
