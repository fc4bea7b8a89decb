//! Searches metrics of OSPF or IS-IS with which the shortest paths carry as much as possible of a
//! joint plan, for networks that cannot carry out the plan's paths.
//!
//! A local search in the manner of Fortz and Thorup (INFOCOM 2000) changes one metric at a time,
//! and judges the loads of all links by their convex cost. It alternates with the planner, which
//! chooses the entries again for the new paths. Links have a metric for each direction.

mod order;
mod range;
mod search;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::num::NonZeroUsize;

use forebay_units::Rate;
use serde::Serialize;

use crate::lp::SolveError;
use crate::network::{Demand, Network};
use crate::paths::PathCache;
use crate::plan::{self, Routing, Scope};
use crate::topology::{Link, LinkId, RouterId, Topology};

pub use order::{Fullest, Order, Step, order};
pub use range::Range;

/// The most that a present metric is multiplied by, so that there is room between two.
const SCALE: u32 = 1000;

/// What is added to the highest metric where metrics keep their scale, which may be only 1.
const ABOVE: u32 = 20;

/// How metrics are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The changes that are tried in each pass.
    pub moves: usize,
    /// The passes; after each the entries are chosen again.
    pub passes: usize,
    /// The seed of the random choices.
    pub seed: u64,
    /// Whether metrics keep their scale, and every change that carries nothing more is reverted, so
    /// that few metrics change. Otherwise all of them change, to be far apart.
    pub few: bool,
    /// The metrics that links may get. Present metrics above them stay, unless they change.
    pub range: Range,
}

impl Default for Search {
    /// Returns three passes of 3000 changes each, with metrics of OSPF.
    fn default() -> Self {
        Self { moves: 3000, passes: 3, seed: 1, few: false, range: Range::OSPF }
    }
}

/// A link whose metric changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The router where the link begins.
    pub from: String,
    /// The router where the link ends.
    pub to: String,
    /// The present metric.
    pub present: u32,
    /// The metric that was found.
    pub metric: u32,
}

/// What metrics reach, in bits per second carried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of the format.
    pub version: u32,
    /// The name of the network.
    pub network: String,
    /// The demand of all providers together.
    pub demand: f64,
    /// The traffic that the present routing carries.
    pub present: f64,
    /// The traffic with hints followed and the present metrics.
    pub hints: f64,
    /// The traffic with hints followed and the metrics that were found.
    pub metrics: f64,
    /// The traffic of the joint plan, with its own paths.
    pub joint: f64,
    /// The pairs of an entry's router and a boundary router with traffic that have more than one
    /// shortest path. Routers would split traffic there, which the search does not assume.
    pub ties: usize,
    /// The metrics of all links.
    pub links: Vec<Change>,
}

impl Report {
    /// Returns the share of the joint plan's traffic that hints and the metrics found carry.
    pub fn share(&self) -> f64 {
        if self.joint > 0.0 { self.metrics / self.joint } else { 1.0 }
    }

    /// Returns the same share with the present metrics.
    pub fn share_of_hints(&self) -> f64 {
        if self.joint > 0.0 { self.hints / self.joint } else { 1.0 }
    }

    /// Returns the metrics of all links as CSV with the columns from, to, present and metric.
    pub fn csv(&self) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let mut text = "from,to,present,metric\n".to_owned();
        for link in &self.links {
            let (from, to) = (quoted(&link.from), quoted(&link.to));
            let _ = writeln!(text, "{from},{to},{},{}", link.present, link.metric);
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "carried of {}:", Rate::from_bps_f64(self.demand))?;
        for (what, bps) in [
            ("present routing", self.present),
            ("hints, present metrics", self.hints),
            ("hints, new metrics", self.metrics),
            ("joint plan", self.joint),
        ] {
            let share = if self.joint > 0.0 { bps / self.joint * 100.0 } else { 100.0 };
            let rate = Rate::from_bps_f64(bps).to_string();
            writeln!(f, "  {what:<24}{rate:>16}  {share:6.1} % of the joint plan")?;
        }
        let changed = self.links.iter().filter(|l| l.metric != l.present).count();
        writeln!(f, "{changed} of {} metrics change", self.links.len())?;
        if self.ties > 0 {
            let pairs = self.ties;
            writeln!(
                f,
                "{pairs} pairs have several shortest paths: routers may split their traffic"
            )?;
        }
        Ok(())
    }
}

/// Searches metrics for `network`, beside the joint plan of `config`.
///
/// # Errors
/// If the solver fails.
pub fn search(
    network: &Network,
    config: &plan::Config,
    search: &Search,
) -> Result<Report, SolveError> {
    let joint = solve(network, config)?;
    let one = plan::Config { paths: NonZeroUsize::MIN, scope: Scope::All, ..*config };
    let present = Routing::present(network, &mut PathCache::new(one.paths), &one.method)?;
    let hints = solve(network, &one)?;
    let (mut best, mut best_total) = (network.topology.clone(), hints.total());
    let mut topology = match search.few {
        true => network.topology.clone(),
        false => apart(&network.topology, search),
    };
    let above = if search.few { ABOVE } else { 0 };
    let mut entries = demands(network, &joint);
    for pass in 0..search.passes {
        let pass = Search { seed: search.seed.wrapping_add(pass as u64), ..*search };
        let routed = Network { demands: entries, ..network.clone() };
        let metrics = search::improve(&topology, &routed, &pass, above);
        topology = with_metrics(&topology, &metrics);
        let moved = Network { topology: topology.clone(), ..network.clone() };
        let found = solve(&moved, &one)?;
        entries = demands(network, &found);
        // Less than a millionth is a residue of the solver.
        if found.total() > best_total * (1.0 + 1e-6) {
            (best, best_total) = (topology.clone(), found.total());
        }
    }
    if search.few {
        (best, best_total) = fewer(network, &one, best, best_total)?;
    }
    let name = |link: &Link| {
        let name = |router: RouterId| network.topology.routers()[router.index()].name.clone();
        (name(link.from), name(link.to))
    };
    let links = network.topology.links().iter().zip(best.links()).map(|(old, new)| {
        let (from, to) = name(old);
        Change { from, to, present: old.metric, metric: new.metric }
    });
    Ok(Report {
        version: 1,
        network: network.topology.name().to_owned(),
        demand: network.demands.iter().map(|d| d.rate.as_bps() as f64).sum(),
        present: present.total(),
        hints: hints.total(),
        metrics: best_total,
        joint: joint.total(),
        ties: search::ties(&best, network),
        links: links.collect(),
    })
}

/// Reverts changes of metrics in groups of falling size, as long as that carries no less than
/// `total`. Returns the topology with what it carries.
fn fewer(
    network: &Network,
    config: &plan::Config,
    mut found: Topology,
    mut total: f64,
) -> Result<(Topology, f64), SolveError> {
    let present = |id: LinkId| network.topology.link(id).metric;
    let changed = |found: &Topology| -> Vec<LinkId> {
        let ids = (0..found.links().len() as u32).map(LinkId);
        ids.filter(|id| found.link(*id).metric != present(*id)).collect()
    };
    let mut size = changed(&found).len();
    while size > 0 {
        for group in changed(&found).chunks(size) {
            let mut tried = found.clone();
            group.iter().for_each(|id| tried.set_metric(*id, present(*id)));
            let moved = Network { topology: tried.clone(), ..network.clone() };
            let carried = solve(&moved, config)?.total();
            if carried >= total * (1.0 - 1e-6) {
                (found, total) = (tried, total.max(carried));
            }
        }
        size /= 2;
    }
    Ok((found, total))
}

fn solve(network: &Network, config: &plan::Config) -> Result<Routing, SolveError> {
    let mut paths = PathCache::new(config.paths);
    let present = Routing::present(network, &mut paths, &config.method)?;
    Routing::proposed(network, &mut paths, config, &present)
}

/// Returns all demands at the entries that `routing` gives them.
fn demands(network: &Network, routing: &Routing) -> Vec<Demand> {
    let problem = &routing.problem;
    let split = problem.split(&routing.allocation.shares, |flow| flow.demand);
    let mut sums: BTreeMap<(u32, u32, RouterId), f64> = BTreeMap::new();
    for flow in &split.flows {
        let Some(choice) = split.choices[flow.choices()].first() else { continue };
        *sums.entry((flow.provider, choice.entry, flow.egress)).or_default() += flow.demand;
    }
    let demand = |((provider, entry, egress), units): (_, f64)| Demand {
        provider,
        entry,
        egress,
        rate: Rate::from_bps_f64(units * problem.unit),
    };
    debug_assert!(network.providers.len() == problem.providers);
    sums.into_iter().map(demand).collect()
}

/// Returns the topology with its metrics scaled, and so far apart that equal paths are rare. The
/// order of paths of different lengths stays.
fn apart(topology: &Topology, search: &Search) -> Topology {
    let most = topology.links().iter().map(|l| l.metric).max().unwrap_or(1);
    // Half of the range is left for the search.
    let scale = (search.range.metric / 2 / most.max(1)).clamp(1, SCALE);
    let hops = topology.routers().len() as u32;
    let room = scale.saturating_sub(1) / hops.max(1);
    let mut draw = crate::synthetic::Draw::new(search.seed);
    let metrics: Vec<u32> = topology
        .links()
        .iter()
        .map(|l| l.metric * scale + draw.below(room as usize + 1) as u32)
        .collect();
    with_metrics(topology, &metrics)
}

fn with_metrics(topology: &Topology, metrics: &[u32]) -> Topology {
    let links = topology.links().iter().zip(metrics);
    let links = links.map(|(link, metric)| Link { metric: *metric, ..*link }).collect();
    Topology::new(
        topology.name().to_owned(),
        topology.routers().to_vec(),
        links,
        topology.notes().to_vec(),
    )
}

#[cfg(test)]
mod tests;
