//! The local search over metrics.

use std::collections::{BTreeMap, BTreeSet};

use super::Search;
use super::order::Fullest;
use crate::network::Network;
use crate::paths::{Entering, Tree, UNREACHABLE};
use crate::synthetic::Draw;
use crate::topology::{LinkId, RouterId, Topology};

/// The slopes of a link's cost, from each utilisation on (Fortz and Thorup, INFOCOM 2000).
const SLOPES: [(f64, f64); 6] =
    [(0.0, 1.0), (1.0 / 3.0, 3.0), (2.0 / 3.0, 10.0), (0.9, 70.0), (1.0, 500.0), (1.1, 5000.0)];
/// The part of changes that raise the metric of a loaded link; the others are of any link.
const TARGETED: f64 = 0.6;
/// The links that are compared to find a loaded one.
const TOURNAMENT: usize = 4;

/// Returns the cost of a link that carries `load`.
fn cost(load: f64, capacity: f64) -> f64 {
    if capacity <= 0.0 {
        return load * SLOPES[SLOPES.len() - 1].1;
    }
    let mut sum = 0.0;
    for (at, (from, slope)) in SLOPES.iter().enumerate() {
        let end = SLOPES.get(at + 1).map_or(f64::INFINITY, |next| next.0 * capacity);
        let begin = from * capacity;
        if load <= begin {
            break;
        }
        sum += slope * (load.min(end) - begin);
    }
    sum
}

/// The traffic to one router, and the paths that it takes.
struct Target {
    router: RouterId,
    /// The rate from each router with traffic, in multiples of the mean capacity.
    sources: Vec<(RouterId, f64)>,
    tree: Tree,
    /// The links with traffic to the target, and the load of each.
    load: Vec<(LinkId, f64)>,
}

pub(super) struct State {
    topology: Topology,
    entering: Entering,
    capacities: Vec<f64>,
    targets: Vec<Target>,
    load: Vec<f64>,
}

impl State {
    pub(super) fn new(topology: &Topology, network: &Network) -> Self {
        let known: Vec<f64> =
            topology.links().iter().filter_map(|l| l.capacity.map(|c| c.as_bps() as f64)).collect();
        let unit = (known.iter().sum::<f64>() / known.len().max(1) as f64).max(1.0);
        let capacity = |link: &crate::topology::Link| {
            link.capacity.map_or(f64::INFINITY, |c| c.as_bps() as f64 / unit)
        };
        let mut sums: BTreeMap<RouterId, BTreeMap<RouterId, f64>> = BTreeMap::new();
        for demand in &network.demands {
            let provider = &network.providers[demand.provider as usize];
            let from = provider.entries[demand.entry as usize].router;
            let rate = demand.rate.as_bps() as f64 / unit;
            if from != demand.egress && rate > 0.0 {
                *sums.entry(demand.egress).or_default().entry(from).or_default() += rate;
            }
        }
        let entering = Entering::of(topology);
        let targets = sums.into_iter().map(|(router, sources)| {
            let tree = Tree::to(topology, &entering, router);
            let sources: Vec<_> = sources.into_iter().collect();
            let load = loads(topology, &tree, &sources);
            Target { router, sources, tree, load }
        });
        let mut state = Self {
            capacities: topology.links().iter().map(capacity).collect(),
            targets: targets.collect(),
            load: vec![0.0; topology.links().len()],
            topology: topology.clone(),
            entering,
        };
        for target in &state.targets {
            for (link, load) in &target.load {
                state.load[link.index()] += load;
            }
        }
        state
    }

    /// Returns the metric of a link.
    pub(super) fn metric(&self, link: LinkId) -> u32 {
        self.topology.link(link).metric
    }

    /// Returns the link with the highest load relative to its capacity.
    pub(super) fn fullest(&self) -> Fullest {
        let loads = self.load.iter().zip(&self.capacities).map(|(load, capacity)| {
            // A link without capacity drops all its traffic.
            if *load > 0.0 { load / capacity } else { 0.0 }
        });
        let most = loads.zip(0..).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        match most {
            Some((load, link)) if load > 0.0 => Fullest { link: Some(LinkId(link)), load },
            _ => Fullest { link: None, load: 0.0 },
        }
    }

    pub(super) fn cost(&self) -> f64 {
        // A link without a capacity costs as one that is hardly used.
        let one = |(load, capacity): (&f64, &f64)| match capacity.is_finite() {
            true => cost(*load, *capacity),
            false => *load,
        };
        self.load.iter().zip(&self.capacities).map(one).sum()
    }

    /// Returns the targets whose paths may change with this metric of a link.
    fn affected(&self, link: LinkId, metric: u32) -> Vec<usize> {
        let old = self.topology.link(link);
        let is = |target: &Target| {
            let uses = target.tree.next[old.from.index()] == Some(link);
            if metric > old.metric {
                return uses;
            }
            let (from, to) =
                (target.tree.distance[old.from.index()], target.tree.distance[old.to.index()]);
            uses || (to != UNREACHABLE && to + u64::from(metric) <= from)
        };
        (0..self.targets.len()).filter(|at| is(&self.targets[*at])).collect()
    }

    /// Sets a metric, and returns what has to be put back to undo it.
    pub(super) fn set(&mut self, link: LinkId, metric: u32) -> Undo {
        let affected = self.affected(link, metric);
        let old = self.topology.link(link).metric;
        self.topology.set_metric(link, metric);
        let mut targets = Vec::new();
        for at in affected {
            let target = &self.targets[at];
            let tree = Tree::to(&self.topology, &self.entering, target.router);
            let load = loads(&self.topology, &tree, &target.sources);
            let new = (tree, load);
            targets.push((at, self.replace(at, new)));
        }
        Undo { link, metric: old, targets }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        self.topology.set_metric(undo.link, undo.metric);
        for (at, old) in undo.targets {
            self.replace(at, old);
        }
    }

    /// Replaces the paths of a target.
    fn replace(&mut self, at: usize, (tree, load): Paths) -> Paths {
        let target = &mut self.targets[at];
        for (link, load) in &target.load {
            self.load[link.index()] -= load;
        }
        for (link, load) in &load {
            self.load[link.index()] += load;
        }
        (std::mem::replace(&mut target.tree, tree), std::mem::replace(&mut target.load, load))
    }
}

type Paths = (Tree, Vec<(LinkId, f64)>);

pub(super) struct Undo {
    link: LinkId,
    metric: u32,
    targets: Vec<(usize, Paths)>,
}

/// Returns the load of each link on the paths of a tree.
fn loads(topology: &Topology, tree: &Tree, sources: &[(RouterId, f64)]) -> Vec<(LinkId, f64)> {
    let mut sums: BTreeMap<LinkId, f64> = BTreeMap::new();
    for (source, rate) in sources {
        let mut at = *source;
        while let Some(link) = tree.next[at.index()] {
            *sums.entry(link).or_default() += rate;
            at = topology.link(link).to;
        }
    }
    sums.into_iter().collect()
}

/// Returns metrics with which the demands of `network` cost less on the shortest paths of
/// `topology`, after the moves of one pass. New metrics are in the range of `search`, and at most
/// twice the highest present one with `above` added.
pub(super) fn improve(
    topology: &Topology,
    network: &Network,
    search: &Search,
    above: u32,
) -> Vec<u32> {
    let mut state = State::new(topology, network);
    let mut draw = Draw::new(search.seed);
    let links = topology.links().len();
    let most = topology.links().iter().map(|l| l.metric).max().unwrap_or(1).saturating_add(above);
    let range = most.saturating_mul(2).min(search.range.metric);
    let mut present = state.cost();
    if links == 0 || state.targets.is_empty() {
        return topology.links().iter().map(|l| l.metric).collect();
    }
    for _ in 0..search.moves {
        let any = |draw: &mut Draw| LinkId(draw.below(links) as u32);
        let (link, metric) = if draw.unit() < TARGETED {
            let used = |link: &LinkId| state.load[link.index()] / state.capacities[link.index()];
            let some = (0..TOURNAMENT).map(|_| any(&mut draw)).collect::<Vec<_>>();
            let loaded = some.into_iter().max_by(|a, b| used(a).total_cmp(&used(b)));
            let link = loaded.unwrap_or(LinkId(0));
            let more = 1 + draw.below(most as usize) as u32;
            (link, (state.topology.link(link).metric + more).min(range))
        } else {
            (any(&mut draw), 1 + draw.below(range as usize) as u32)
        };
        if metric == state.topology.link(link).metric {
            continue;
        }
        let undo = state.set(link, metric);
        let new = state.cost();
        // A change that costs nothing is kept: it leads on from plateaus.
        if new <= present {
            present = new;
        } else {
            state.undo(undo);
        }
    }
    state.topology.links().iter().map(|l| l.metric).collect()
}

/// Returns the number of pairs with traffic that have more than one shortest path.
pub(super) fn ties(topology: &Topology, network: &Network) -> usize {
    let mut pairs: BTreeMap<RouterId, BTreeSet<RouterId>> = BTreeMap::new();
    for demand in &network.demands {
        let entries = &network.providers[demand.provider as usize].entries;
        pairs.entry(demand.egress).or_default().extend(entries.iter().map(|e| e.router));
    }
    let entering = Entering::of(topology);
    let several = |(target, sources): (RouterId, BTreeSet<RouterId>)| {
        let tree = Tree::to(topology, &entering, target);
        let equal = |at: RouterId| {
            let shortest = |id: &&LinkId| {
                let link = topology.link(**id);
                let to = tree.distance[link.to.index()];
                to != UNREACHABLE && to + u64::from(link.metric) == tree.distance[at.index()]
            };
            topology.leaving(at).iter().filter(shortest).count() > 1
        };
        let on_the_way = |source: &RouterId| {
            let mut at = *source;
            while let Some(link) = tree.next[at.index()] {
                if equal(at) {
                    return true;
                }
                at = topology.link(link).to;
            }
            false
        };
        sources.iter().filter(|s| on_the_way(s)).count()
    };
    pairs.into_iter().map(several).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn costs_match_hand_calculations() {
        assert_eq!(cost(0.0, 3.0), 0.0);
        assert_eq!(cost(1.0, 3.0), 1.0);
        assert_eq!(cost(2.0, 3.0), 1.0 + 3.0);
        // 1 + 3 + 0.7 * 10 + 0.3 * 70, and 0.3 * 500 and 0.7 * 5000 above the capacity.
        assert!((cost(3.0, 3.0) - 32.0).abs() < 1e-9);
        assert!((cost(4.0, 3.0) - (32.0 + 150.0 + 3500.0)).abs() < 1e-9);
        assert_eq!(cost(2.0, 0.0), 10_000.0);
    }

    /// Returns whether the kept loads are those that a new state has.
    pub(in crate::weights) fn is_consistent(
        topology: &Topology,
        network: &Network,
        moves: &[(usize, u32, bool)],
    ) -> bool {
        let mut state = State::new(topology, network);
        for (link, metric, keep) in moves {
            let undo = state.set(LinkId((link % topology.links().len()) as u32), *metric);
            if !keep {
                state.undo(undo);
            }
        }
        let fresh = State::new(&state.topology, network);
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        state.load.iter().zip(&fresh.load).all(near)
    }
}
