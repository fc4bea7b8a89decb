//! The set-up of section 3.5.1: one ISP, and content providers with networks of their own.

use std::collections::BTreeSet;

use forebay_plan::load;
use forebay_plan::network::{Demand, Entry, Network, Provider};
use forebay_plan::paths::{Entering, Tree, UNREACHABLE};
use forebay_plan::synthetic::Draw;
use forebay_plan::topology::{LinkId, RouterId, Topology};
use forebay_units::Rate;

/// The number of content providers.
pub(super) const PROVIDERS: usize = 20;
/// The largest number of interconnections of a provider.
const ENTRIES: usize = 5;
/// The total demand. It scales everything alike.
const TOTAL: Rate = Rate::from_mbps(1_000_000);
/// The congestion parameter, for which the thesis has no figure: the capacity of a link over the
/// load of the most loaded one. Only the few links with more than half of the highest load are
/// congested.
pub(super) const CONGESTION: f64 = 0.5;

/// The demand of an interconnection over its capacity, by rank. The thesis takes it from figures on
/// the interconnections of one content provider (Schlinker et al., "Engineering Egress with Edge
/// Fabric", SIGCOMM 2017): of the overloaded ones the median would have to carry 1.19 times its
/// capacity, and one in ten twice as much. That half of all are overloaded is our choice.
const ASKED: [(f64, f64); 5] = [(0.0, 0.4), (0.5, 1.0), (0.75, 1.19), (0.95, 2.0), (1.0, 2.5)];

/// The demand over the capacity of the overloaded interconnections alone, by rank.
const OVERLOADED: [(f64, f64); 4] = [(0.0, 1.0), (0.5, 1.19), (0.9, 2.0), (1.0, 2.5)];

/// The capacity of an interconnection, for which the thesis (section 3.5.1) has two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interconnections {
    /// The demand divided by the figure in [`ASKED`], since the published figures are of demand
    /// over capacity. Half of all interconnections are overloaded.
    Divided,
    /// The demand multiplied by the figure in [`OVERLOADED`], as the sentence of the thesis says.
    /// Early exit overloads no interconnection, and only links inside are short.
    Multiplied,
}

impl Interconnections {
    /// The capacity over the demand of an interconnection of this rank, from 0 to 1.
    fn carries(self, rank: f64) -> f64 {
        match self {
            Self::Divided => 1.0 / at(&ASKED, rank),
            Self::Multiplied => at(&OVERLOADED, rank),
        }
    }
}

/// The value of `table` at a rank from 0 to 1.
fn at(table: &[(f64, f64)], rank: f64) -> f64 {
    for pair in table.windows(2) {
        let ((low, from), (high, to)) = (pair[0], pair[1]);
        if rank <= high {
            return from + (to - from) * (rank - low) / (high - low);
        }
    }
    table[table.len() - 1].1
}

/// [`network_of`] with [`Interconnections::Divided`].
pub(super) fn network(
    isp: &Topology,
    others: &[Topology],
    participating: usize,
    congestion: f64,
    seed: u64,
) -> Network {
    network_of(isp, others, participating, congestion, Interconnections::Divided, seed)
}

/// The ISP `isp` with twenty providers whose networks are drawn from `others`; the same for the
/// same seed. The first `participating` of them participate.
///
/// Each provider has one to five interconnections between drawn routers of its own and of the ISP.
/// All its other routers are sources, of sizes with a heavy tail, and each hands its traffic over
/// at the nearest interconnection: early exit. The traffic from there to a router of the ISP is in
/// proportion to both sizes (gravity). Routers where the provider is connected have no users for
/// it, as in the thesis. `interconnections` sets the capacity of interconnections. All links of the
/// ISP have the same capacity: the congestion parameter times the load of the most loaded one by
/// shortest paths.
pub(super) fn network_of(
    isp: &Topology,
    others: &[Topology],
    participating: usize,
    congestion: f64,
    interconnections: Interconnections,
    seed: u64,
) -> Network {
    let draw = &mut Draw::new(seed);
    let mut topology = isp.clone();
    let serving: Vec<RouterId> =
        topology.ids().filter(|r| topology.routers()[r.index()].serves).collect();
    let users: Vec<f64> = serving.iter().map(|_| draw.size()).collect();
    let mut providers: Vec<Provider> = Vec::new();
    let mut raw: Vec<(u32, u32, RouterId, f64)> = Vec::new();
    for number in 0..PROVIDERS {
        let own = &others[draw.below(others.len())];
        let most = ENTRIES.min(serving.len() - 1).min(own.routers().len() - 1);
        let entries = 1 + draw.below(most);
        let ingress = distinct(entries, serving.len(), draw);
        let ingress: Vec<RouterId> = ingress.into_iter().map(|at| serving[at]).collect();
        let exits = distinct(entries, own.routers().len(), draw);
        let masses = masses(own, &exits, draw);
        for (mass, entry) in masses.iter().zip(0..) {
            for (egress, users) in serving.iter().zip(&users).filter(|e| !ingress.contains(e.0)) {
                raw.push((number as u32, entry, *egress, mass * users));
            }
        }
        let entry = |router| Entry { router, capacity: None };
        providers.push(Provider {
            name: format!("cp{}", number + 1),
            participates: number < participating,
            weight: 1.0,
            entries: ingress.into_iter().map(entry).collect(),
        });
    }
    let all: f64 = raw.iter().map(|r| r.3).sum();
    let demand = |(provider, entry, egress, part): (u32, u32, RouterId, f64)| Demand {
        provider,
        entry,
        egress,
        rate: TOTAL.scaled(part / all),
    };
    let demands: Vec<Demand> = raw.into_iter().map(demand).collect();
    for (provider, number) in providers.iter_mut().zip(0..) {
        for (entry, at) in provider.entries.iter_mut().zip(0..) {
            let own = demands.iter().filter(|d| (d.provider, d.entry) == (number, at));
            let sent: u64 = own.map(|d| d.rate.as_bps()).sum();
            let part = interconnections.carries(draw.unit());
            entry.capacity = Some(Rate::from_bps_f64(sent as f64 * part));
        }
    }
    let most = load::shortest(&topology, &providers, &demands).into_iter().fold(0.0, f64::max);
    let capacity = Rate::from_bps_f64(most * congestion);
    topology.set_capacities(|_: LinkId, _| Some(capacity));
    Network { topology, providers, demands, avoided: BTreeSet::new() }
}

/// Draws `count` different numbers below `n`, in the order of drawing.
fn distinct(count: usize, n: usize, draw: &mut Draw) -> Vec<usize> {
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        let at = draw.below(n);
        if !found.contains(&at) {
            found.push(at);
        }
    }
    found
}

/// The traffic that the sources of a provider's network hand over at each of its `exits`, by early
/// exit.
fn masses(own: &Topology, exits: &[usize], draw: &mut Draw) -> Vec<f64> {
    let entering = Entering::of(own);
    let trees: Vec<Tree> =
        exits.iter().map(|e| Tree::to(own, &entering, RouterId(*e as u32))).collect();
    let taken: BTreeSet<usize> = exits.iter().copied().collect();
    let mut masses = vec![0.0; exits.len()];
    // The provider's size is drawn separately, so that a large network is not a large provider.
    let size = draw.size();
    for router in 0..own.routers().len() {
        let mass = draw.size();
        if taken.contains(&router) {
            continue;
        }
        let nearest = (0..exits.len()).min_by_key(|e| trees[*e].distance[router]);
        let reached = nearest.filter(|e| trees[*e].distance[router] != UNREACHABLE);
        if let Some(exit) = reached {
            masses[exit] += mass;
        }
    }
    let all: f64 = masses.iter().sum();
    if all > 0.0 { masses.iter().map(|m| size * m / all).collect() } else { masses }
}

/// The mean number of links of a router, both directions of a link counted as one.
pub(super) fn degree(topology: &Topology) -> f64 {
    topology.links().len() as f64 / topology.routers().len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_plan::synthetic::plane;

    #[test]
    fn interconnections_follow_the_published_figures() {
        assert_eq!([0.0, 0.5, 0.75, 1.0].map(|r| at(&ASKED, r)), [0.4, 1.0, 1.19, 2.5]);
        // One in ten of the overloaded half has twice its capacity.
        assert!((at(&ASKED, 0.95) - 2.0).abs() < 1e-12);
        // The upper half of the one table is the other.
        for (all, over) in ASKED[1..].iter().zip(OVERLOADED) {
            assert!((all.0 * 2.0 - 1.0 - over.0).abs() < 1e-12 && all.1 == over.1);
        }
        assert_eq!(Interconnections::Divided.carries(0.0), 2.5);
        assert_eq!(Interconnections::Multiplied.carries(0.5), 1.19);
    }

    #[test]
    fn the_set_up_is_that_of_the_thesis() {
        let isp = plane(12, 1.3, &mut Draw::new(1));
        let others = [plane(9, 1.4, &mut Draw::new(2)), plane(15, 1.2, &mut Draw::new(3))];
        let network = network(&isp, &others, 7, CONGESTION, 5);
        assert_eq!(network.providers.len(), 20);
        assert_eq!(network.providers.iter().filter(|p| p.participates).count(), 7);
        for provider in &network.providers {
            assert!((1..=5).contains(&provider.entries.len()));
        }
        for demand in &network.demands {
            let entries = &network.providers[demand.provider as usize].entries;
            assert!(entries.iter().all(|e| e.router != demand.egress));
        }
        let sent: u64 = network.demands.iter().map(|d| d.rate.as_bps()).sum();
        assert!((sent as f64 / TOTAL.as_bps() as f64 - 1.0).abs() < 1e-6);
        let again = super::network(&isp, &others, 7, CONGESTION, 5);
        assert_eq!(network, again);
        // The other reading differs only in its interconnections, which early exit does not
        // overload.
        let literal = network_of(&isp, &others, 7, CONGESTION, Interconnections::Multiplied, 5);
        assert_eq!((&literal.demands, &literal.topology), (&network.demands, &network.topology));
        for (provider, number) in literal.providers.iter().zip(0..) {
            for (entry, at) in provider.entries.iter().zip(0..) {
                let own = literal.demands.iter().filter(|d| (d.provider, d.entry) == (number, at));
                let sent: u64 = own.map(|d| d.rate.as_bps()).sum();
                assert!(entry.capacity.unwrap().as_bps() >= sent);
            }
        }
        // The load of the most loaded link is twice its capacity.
        let load = load::shortest(&network.topology, &network.providers, &network.demands);
        let over = load.iter().zip(network.topology.links());
        let most =
            over.map(|(l, link)| l / link.capacity.unwrap().as_bps() as f64).fold(0.0, f64::max);
        assert!((most - 2.0).abs() < 1e-6);
    }
}
