//! A plan as values, for JSON and tables.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::fairness;
use crate::network::Network;
use crate::plan::Routing;
use crate::problem::{Problem, ResourceKind};
use crate::topology::RouterId;

/// A plan beside the present routing. Rates are in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of the format; it grows when a field changes its meaning or is removed.
    pub version: u32,
    /// The name of the network.
    pub network: String,
    /// Decisions of the reader about details that the network's file leaves open.
    pub notes: Vec<String>,
    /// The demand of all providers together.
    pub demand: f64,
    /// The demand that has no path from its entries to its users.
    pub unreachable: f64,
    /// The figures of the present routing.
    pub before: Figures,
    /// The figures of the proposed routing.
    pub after: Figures,
    /// The results of the providers.
    pub providers: Vec<ProviderResult>,
    /// The proposed routing.
    pub routing: Vec<Aggregate>,
    /// The traffic by provider, entry and boundary router in both routings.
    pub flows: Vec<FlowChange>,
    /// The use of links and interconnections whose capacity is known.
    pub links: Vec<LinkUse>,
}

/// The figures of a routing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The traffic carried in all.
    pub total: f64,
    /// The weighted fairness index: 0 is fair.
    pub wfi: f64,
    /// The highest utilisation of any link or interconnection, from 0 to 1.
    pub most_used: f64,
}

/// The result of one provider.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderResult {
    /// The name of the provider.
    pub name: String,
    /// Whether the provider follows hints.
    pub participates: bool,
    /// The demand of the provider.
    pub demand: f64,
    /// The rate that it gets at present.
    pub before: f64,
    /// The rate that it would get.
    pub after: f64,
    /// What it gets at present relative to what it could get alone, from 0 to 1.
    pub satisfaction_before: f64,
    /// What it would get relative to what it could get alone, from 0 to 1.
    pub satisfaction_after: f64,
}

/// The traffic of one provider through one entry to one boundary router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowChange {
    /// The name of the provider.
    pub provider: String,
    /// The ingress router.
    pub entry: String,
    /// The boundary router.
    pub router: String,
    /// The present rate.
    pub before: f64,
    /// The rate in the proposed routing.
    pub after: f64,
}

/// The routing of one provider's traffic to one boundary router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    /// The name of the provider.
    pub provider: String,
    /// The boundary router.
    pub router: String,
    /// The routers of the entries where the traffic comes in at present.
    pub present_entries: Vec<String>,
    /// The demand of the aggregate.
    pub demand: f64,
    /// The rate that the aggregate gets.
    pub rate: f64,
    /// The rate that it gets at present.
    pub before: f64,
    /// The paths in use, the one with the highest rate first.
    pub ways: Vec<Share>,
}

/// The part of an aggregate on one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The ingress router.
    pub entry: String,
    /// All routers of the path, both ends included.
    pub path: Vec<String>,
    /// The rate on the path.
    pub rate: f64,
    /// The present rate on the path.
    pub before: f64,
    /// Whether the present routing uses this path.
    pub present: bool,
}

/// The use of a link or an interconnection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkUse {
    /// The router or provider where it begins.
    pub from: String,
    /// The router where it ends.
    pub to: String,
    /// The capacity of the link or interconnection.
    pub capacity: f64,
    /// The present load.
    pub before: f64,
    /// The load if the plan is followed.
    pub after: f64,
}

/// The share of an aggregate's demand below which its routing is the same.
const SAME: f64 = 1e-3;

/// The part of the mean demand below which a share is numerical residue of the solver.
const LEFTOVER: f64 = 1e-6;

impl Report {
    pub(crate) fn new(
        network: &Network,
        present: &Routing,
        proposed: &Routing,
        alone: &[f64],
        weights: &[f64],
    ) -> Self {
        let (before, after) = (present.by_provider(), proposed.by_provider());
        let satisfied = |got: &[f64]| fairness::satisfaction(got, alone);
        let (satisfied_before, satisfied_after) = (satisfied(&before), satisfied(&after));
        let links = links(network, present, proposed);
        let most = |carried: fn(&LinkUse) -> f64| {
            links
                .iter()
                .filter(|l| l.capacity > 0.0)
                .map(|l| carried(l) / l.capacity)
                .fold(0.0, f64::max)
        };
        let mut asked = vec![0.0; network.providers.len()];
        for demand in &network.demands {
            asked[demand.provider as usize] += demand.rate.as_bps() as f64;
        }
        let providers = network.providers.iter().enumerate().map(|(at, provider)| ProviderResult {
            name: provider.name.clone(),
            participates: provider.participates,
            demand: asked[at],
            before: before[at],
            after: after[at],
            satisfaction_before: satisfied_before[at],
            satisfaction_after: satisfied_after[at],
        });
        let lost =
            proposed.problem.flows.iter().filter(|f| f.choices().is_empty()).map(|f| f.demand);
        Self {
            version: 1,
            network: network.topology.name().to_owned(),
            notes: network
                .topology
                .notes()
                .iter()
                .cloned()
                .chain(network.topology.unlimited())
                .collect(),
            demand: asked.iter().sum(),
            unreachable: lost.sum::<f64>() * proposed.problem.unit,
            before: Figures {
                total: present.total(),
                wfi: fairness::index(&satisfied_before, weights),
                most_used: most(|l| l.before),
            },
            after: Figures {
                total: proposed.total(),
                wfi: fairness::index(&satisfied_after, weights),
                most_used: most(|l| l.after),
            },
            providers: providers.collect(),
            routing: routing(network, present, proposed),
            flows: flows(network, present, proposed),
            links,
        }
    }

    /// Returns the number of aggregates that move, and their traffic that takes other paths than at
    /// present.
    ///
    /// An aggregate moves also if only its split over its present paths changes. One that gets more
    /// on the same paths does not.
    pub fn moved(&self) -> (usize, f64) {
        let part = |rate: f64, whole: f64| if whole > 0.0 { rate / whole } else { 0.0 };
        let more = |a: &Aggregate| {
            let parts = a.ways.iter().map(|w| part(w.rate, a.rate) - part(w.before, a.before));
            a.rate * parts.map(|p| p.max(0.0)).sum::<f64>()
        };
        let moving = self.routing.iter().map(|a| (more(a), a.demand));
        // Below this share, the difference is residue of the solver.
        let moving = moving.filter(|(more, demand)| *more > SAME * demand);
        moving.fold((0, 0.0), |(count, sum), (more, _)| (count + 1, sum + more))
    }

    /// Returns the relative gain in carried traffic over the present routing.
    pub fn gain(&self) -> f64 {
        if self.before.total > 0.0 { self.after.total / self.before.total - 1.0 } else { 0.0 }
    }
}

/// The rate of each provider's traffic by boundary router and path, the entry's router first.
fn by_path(network: &Network, routing: &Routing) -> BTreeMap<(u32, RouterId, Vec<RouterId>), f64> {
    let Routing { problem, allocation } = routing;
    let mut rates = BTreeMap::new();
    for flow in &problem.flows {
        for number in flow.choices() {
            let choice = &problem.choices[number];
            let entry = &network.providers[flow.provider as usize].entries[choice.entry as usize];
            let hops = problem.links(choice).map(|l| network.topology.link(l).to);
            let path: Vec<RouterId> = std::iter::once(entry.router).chain(hops).collect();
            *rates.entry((flow.provider, flow.egress, path)).or_insert(0.0) +=
                allocation.shares[number] * problem.unit;
        }
    }
    rates
}

fn flows(network: &Network, present: &Routing, proposed: &Routing) -> Vec<FlowChange> {
    let mut rates: BTreeMap<(u32, RouterId, RouterId), (f64, f64)> = BTreeMap::new();
    let [present, proposed] = [present, proposed].map(|routing| by_path(network, routing));
    for ((provider, egress, path), rate) in present {
        rates.entry((provider, path[0], egress)).or_default().0 += rate;
    }
    for ((provider, egress, path), rate) in proposed {
        rates.entry((provider, path[0], egress)).or_default().1 += rate;
    }
    let name = |router: RouterId| network.topology.routers()[router.index()].name.clone();
    let flows = rates.into_iter().filter(|(_, (before, after))| before + after > 0.0);
    flows
        .map(|((provider, entry, egress), (before, after))| FlowChange {
            provider: network.providers[provider as usize].name.clone(),
            entry: name(entry),
            router: name(egress),
            before,
            after,
        })
        .collect()
}

fn routing(network: &Network, present_routing: &Routing, proposed: &Routing) -> Vec<Aggregate> {
    let rates_before: BTreeMap<(u32, RouterId, Vec<String>), f64> =
        by_path(network, present_routing)
            .into_iter()
            .map(|((provider, egress, path), rate)| {
                let names = path.iter().map(|r| network.topology.routers()[r.index()].name.clone());
                ((provider, egress, names.collect()), rate)
            })
            .collect();
    let Routing { problem, allocation } = proposed;
    let name = |router: RouterId| network.topology.routers()[router.index()].name.clone();
    let mut present: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for demand in network.demands.iter().filter(|d| d.rate.as_bps() > 0) {
        present.entry((demand.provider, demand.egress)).or_default().insert(demand.entry);
    }
    let mut groups: BTreeMap<_, (f64, Vec<(usize, f64)>)> = BTreeMap::new();
    for flow in &problem.flows {
        let group = groups.entry((flow.provider, flow.egress)).or_default();
        group.0 += flow.demand * problem.unit;
        let shares = flow.choices().map(|c| (c, allocation.shares[c])).filter(|s| s.1 > LEFTOVER);
        group.1.extend(shares);
    }
    let way = |provider: u32, (choice, share): (usize, f64)| {
        let choice = &problem.choices[choice];
        let entry = network.providers[provider as usize].entries[choice.entry as usize].router;
        let hops = problem.links(choice).map(|l| name(network.topology.link(l).to));
        Share {
            entry: name(entry),
            path: std::iter::once(name(entry)).chain(hops).collect(),
            rate: share * problem.unit,
            before: 0.0,
            present: choice.present,
        }
    };
    let aggregates = groups.into_iter().map(|((provider, egress), (demand, shares))| {
        let mut ways: Vec<Share> = Vec::new();
        for share in shares.into_iter().map(|s| way(provider, s)) {
            // Sub-flows on the same path are one share.
            match ways.iter_mut().find(|w| w.path == share.path) {
                Some(same) => same.rate += share.rate,
                None => ways.push(share),
            }
        }
        for way in &mut ways {
            let path = (provider, egress, way.path.clone());
            way.before = rates_before.get(&path).copied().unwrap_or(0.0);
        }
        ways.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        let own = &network.providers[provider as usize];
        let entries = present.get(&(provider, egress)).into_iter().flatten();
        Aggregate {
            provider: own.name.clone(),
            router: name(egress),
            present_entries: entries.map(|e| name(own.entries[*e as usize].router)).collect(),
            demand,
            rate: ways.iter().map(|w| w.rate).sum(),
            before: rates_before
                .iter()
                .filter(|((p, e, _), _)| (*p, *e) == (provider, egress))
                .map(|(_, rate)| rate)
                .sum(),
            ways,
        }
    });
    aggregates.collect()
}

/// Returns the links and interconnections that carry traffic and whose capacity is known.
fn links(network: &Network, present: &Routing, proposed: &Routing) -> Vec<LinkUse> {
    let load = |routing: &Routing| -> BTreeMap<ResourceKind, f64> {
        let problem: &Problem = &routing.problem;
        let load = problem.load(&routing.allocation.shares);
        problem.resources.iter().zip(load).map(|(r, l)| (r.kind, l * problem.unit)).collect()
    };
    let (before, after) = (load(present), load(proposed));
    let kinds: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let name = |router: RouterId| network.topology.routers()[router.index()].name.clone();
    let used = kinds.into_iter().filter_map(|kind| {
        let (from, to, capacity) = match kind {
            ResourceKind::Link(id) => {
                let link = network.topology.link(id);
                (name(link.from), name(link.to), link.capacity)
            }
            ResourceKind::Entry(provider, entry) => {
                let provider = &network.providers[provider as usize];
                let entry = provider.entries[entry as usize];
                (provider.name.clone(), name(entry.router), entry.capacity)
            }
        };
        let of = |load: &BTreeMap<_, f64>| load.get(&kind).copied().unwrap_or(0.0);
        Some(LinkUse {
            from,
            to,
            capacity: capacity?.as_bps() as f64,
            before: of(&before),
            after: of(&after),
        })
    });
    used.filter(|l| l.before > 0.0 || l.after > 0.0).collect()
}
