//! Figures 3.7 and 3.8: what the ISP and its providers gain, over early exit and over what the ISP can do alone.

use serde::Serialize;

use super::stats::{median, spearman};
use super::{PATHS, Progress, Setup, setting};
use forebay_plan::allocate::{Method, Wba};
use forebay_plan::lp::SolveError;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Config, Routing, Scope};
use forebay_plan::topology::Topology;

/// One topology.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Its name.
    pub name: String,
    /// Its routers.
    pub routers: usize,
    /// The mean number of a router's links.
    pub degree: f64,
    /// How much more Unison carries than early exit, for each seed.
    pub unison: Vec<f64>,
    /// The same of what optimises paths inside only.
    pub intra: Vec<f64>,
    /// The same of Unison with whole aggregates, for those topologies where it was asked.
    pub whole: Vec<f64>,
    /// What early exit carries of all that is asked for, for each seed.
    pub carried: Vec<f64>,
    /// Of each provider and seed, how much more it gets than by early exit: under Unison and with paths inside only.
    pub providers: Vec<(f64, f64)>,
}

/// Larger networks are not asked for whole aggregates: their problems have some hundred thousand ways.
const WHOLE: usize = 60;

pub(super) fn config(scope: Scope, sub_flows: Option<u16>) -> Config {
    Config { method: Method::Wba(Wba::default()), scope, sub_flows, paths: PATHS }
}

/// `b` over `a`, less one.
pub(super) fn more(a: f64, b: f64) -> f64 {
    if a > 0.0 { b / a - 1.0 } else { 0.0 }
}

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

/// The same of what Unison gains over paths inside alone: the part that comes of where traffic enters, which is what the
/// text explains the influence of the degree by (section 3.5.2).
pub(super) fn entries_by_degree(gains: &[Gain]) -> f64 {
    let more = |g: &Gain| -> f64 {
        let each: Vec<f64> = g.unison.iter().zip(&g.intra).map(|(u, i)| u - i).collect();
        median(&each)
    };
    let pairs: Vec<(f64, f64)> = gains.iter().map(|g| (g.degree, more(g))).collect();
    spearman(&pairs)
}

/// Spearman's rank correlation of degree and gain over topologies.
pub(super) fn by_degree(gains: &[Gain]) -> f64 {
    let pairs: Vec<(f64, f64)> = gains.iter().map(|g| (g.degree, median(&g.unison))).collect();
    spearman(&pairs)
}
