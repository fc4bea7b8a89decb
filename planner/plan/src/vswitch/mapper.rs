//! Divides the network into a core, where traffic is steered, and an edge, where its path is fixed.
//!
//! The core grows from the entries outward, one hop at a time, as long as the number of aggregate
//! flows (an entry and a boundary router each) stays within a limit (section 3.3). All users behind
//! a router of the edge are reached through the router of the core that is nearest to it by the
//! metrics.

use std::collections::{BTreeMap, BTreeSet};

use crate::network::{Demand, Network};
use crate::topology::{LinkId, RouterId, Topology};

/// A division into core and edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The number of hops that the core reaches from the entries.
    pub hops: u32,
    /// The boundary router in front of the users of each router; `None` where no entry has a path.
    pub boundary: Vec<Option<RouterId>>,
    /// The number of aggregate flows.
    pub aggregates: usize,
}

/// Divides the network so that it has at most `limit` aggregate flows, or as few as possible.
pub fn map(network: &Network, limit: usize) -> Map {
    let topology = &network.topology;
    let entries: BTreeSet<RouterId> =
        network.providers.iter().flat_map(|p| p.entries.iter().map(|e| e.router)).collect();
    let hops = hops_from(topology, &entries);
    let deepest = hops.iter().flatten().copied().max().unwrap_or(0);
    let mut best = divide(network, &hops, 0);
    for reach in 1..=deepest {
        let next = divide(network, &hops, reach);
        if next.aggregates > limit {
            break;
        }
        best = next;
    }
    best
}

/// Returns the hops of each router from the nearest entry.
fn hops_from(topology: &Topology, entries: &BTreeSet<RouterId>) -> Vec<Option<u32>> {
    let mut hops = vec![None; topology.routers().len()];
    let mut open: std::collections::VecDeque<RouterId> = entries.iter().copied().collect();
    for entry in entries {
        hops[entry.index()] = Some(0);
    }
    while let Some(at) = open.pop_front() {
        for link in topology.leaving(at) {
            let to = topology.link(*link).to;
            if hops[to.index()].is_none() {
                hops[to.index()] = hops[at.index()].map(|h| h + 1);
                open.push_back(to);
            }
        }
    }
    hops
}

fn divide(network: &Network, hops: &[Option<u32>], reach: u32) -> Map {
    let core = |router: RouterId| hops[router.index()].is_some_and(|h| h <= reach);
    let boundary = nearest(&network.topology, core);
    let aggregates: BTreeSet<_> = network
        .demands
        .iter()
        .filter_map(|d| Some((d.provider, d.entry, boundary[d.egress.index()]?)))
        .collect();
    Map { hops: reach, aggregates: aggregates.len(), boundary }
}

/// Returns the nearest router of the core to each router; of several, the first.
fn nearest(topology: &Topology, core: impl Fn(RouterId) -> bool) -> Vec<Option<RouterId>> {
    let mut settled: Vec<Option<RouterId>> = vec![None; topology.routers().len()];
    let mut open: BTreeSet<(u64, RouterId, RouterId)> =
        topology.ids().filter(|r| core(*r)).map(|r| (0, r, r)).collect();
    while let Some((distance, from, at)) = open.pop_first() {
        if settled[at.index()].is_some() {
            continue;
        }
        settled[at.index()] = Some(from);
        for link in topology.leaving(at) {
            let link = topology.link(*link);
            if settled[link.to.index()].is_none() && !core(link.to) {
                open.insert((distance + u64::from(link.metric), from, link.to));
            }
        }
    }
    settled
}

impl Map {
    /// Returns the core network with the sum of the demands of each aggregate flow, and the number
    /// of demands that no entry reaches.
    ///
    /// The optimiser works on the core. It has no links of the edge, since the path of their
    /// traffic is fixed.
    pub fn core(&self, network: &Network) -> (Network, usize) {
        let inside = |router: RouterId| self.boundary[router.index()] == Some(router);
        let keep = |id: &LinkId| {
            let link = network.topology.link(*id);
            inside(link.from) && inside(link.to)
        };
        let links = (0..network.topology.links().len() as u32).map(LinkId).filter(keep);
        let topology = Topology::new(
            network.topology.name().to_owned(),
            network.topology.routers().to_vec(),
            links.map(|id| network.topology.link(id)).collect(),
            network.topology.notes().to_vec(),
        );
        let mut sums: BTreeMap<(u32, u32, RouterId), u64> = BTreeMap::new();
        let mut lost = 0;
        for demand in &network.demands {
            match self.boundary[demand.egress.index()] {
                Some(boundary) => {
                    let sum = sums.entry((demand.provider, demand.entry, boundary)).or_default();
                    *sum = sum.saturating_add(demand.rate.as_bps());
                }
                None => lost += 1,
            }
        }
        let demands = sums.into_iter().map(|((provider, entry, egress), sum)| Demand {
            provider,
            entry,
            egress,
            rate: forebay_units::Rate::from_bps(sum),
        });
        let demands = demands.collect();
        let providers = network.providers.clone();
        (Network { topology, providers, demands, avoided: BTreeSet::new() }, lost)
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;
    use crate::network::{Entry, Provider};
    use crate::topology::{Link, Router};

    /// A chain of five routers, with the entry at the first one.
    fn chain() -> Network {
        let routers = (0..5).map(|n| Router { name: n.to_string(), serves: true }).collect();
        let link =
            |(from, to)| Link { from: RouterId(from), to: RouterId(to), capacity: None, metric: 1 };
        let links = (0..4).flat_map(|n| [(n, n + 1), (n + 1, n)]).map(link).collect();
        let entry = Entry { router: RouterId(0), capacity: None };
        let provider = Provider {
            name: "x".to_owned(),
            participates: true,
            weight: 1.0,
            entries: vec![entry],
        };
        let demand = |egress| Demand {
            provider: 0,
            entry: 0,
            egress: RouterId(egress),
            rate: Rate::from_mbps(1),
        };
        Network {
            topology: Topology::new(String::new(), routers, links, Vec::new()),
            providers: vec![provider],
            demands: (0..5).map(demand).collect(),
            avoided: BTreeSet::new(),
        }
    }

    #[test]
    fn the_core_grows_up_to_the_limit() {
        let network = chain();
        for (limit, hops, aggregates) in [(0, 0, 1), (1, 0, 1), (3, 2, 3), (4, 3, 4), (100, 4, 5)] {
            let map = map(&network, limit);
            assert_eq!((map.hops, map.aggregates), (hops, aggregates), "{limit}");
        }
    }

    #[test]
    fn users_of_the_edge_are_behind_the_nearest_core_router() {
        let network = chain();
        let map = map(&network, 3);
        let boundary: Vec<_> = map.boundary.iter().map(|b| b.map(|b| b.0)).collect();
        assert_eq!(boundary, [Some(0), Some(1), Some(2), Some(2), Some(2)]);
        let (core, lost) = map.core(&network);
        assert_eq!((core.topology.links().len(), core.demands.len(), lost), (4, 3, 0));
        assert_eq!(core.demands[2].rate, Rate::from_mbps(3));
    }

    #[test]
    fn demands_that_no_entry_reaches_are_counted() {
        let mut network = chain();
        let links = network.topology.links()[..4].to_vec();
        network.topology =
            Topology::new(String::new(), network.topology.routers().to_vec(), links, Vec::new());
        let (core, lost) = map(&network, 100).core(&network);
        assert_eq!((core.demands.len(), lost), (3, 2));
    }
}
