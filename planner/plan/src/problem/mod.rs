//! The optimisation problem: flows, the choices of each, and the capacities that limit them.
//!
//! A [`Choice`] is an entry of the provider and a path from it through the network. A [`Resource`]
//! is what limits flows: a link, or an interconnection with a provider. Rates are in multiples of
//! the mean demand, so that the solver sees numbers near one whatever the size of the network;
//! [`Problem::unit`] converts them to bits per second.

mod build;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use build::Builder;

use crate::network::Network;
use crate::paths::PathCache;
use crate::topology::{LinkId, RouterId};

/// What may change of the present routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Nothing: each aggregate flow stays at its entry and on the shortest path (early exit and
    /// OSPF).
    Present,
    /// Paths inside the network, and no entries. No setting of OSPF's metrics can do better.
    Intra,
    /// Paths, and the entries of providers that participate: Unison.
    Joint,
}

/// What makes up one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// The sum over all entries that the optimiser may choose between: a row of the inter-domain
    /// matrix (section 3.4.1).
    Summed,
    /// An aggregate flow of one present entry, cut into this number of equal sub-flows (section
    /// 3.5.4), for routings in which a flow has a single path.
    Aggregates(u16),
}

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ResourceKind {
    /// A link of the network.
    Link(LinkId),
    /// The interconnection of a provider at one of its entries, both by index.
    Entry(u32, u32),
}

/// A link or an interconnection, with its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resource {
    /// The link or interconnection.
    pub kind: ResourceKind,
    /// The capacity in units; infinite if it is unknown.
    pub capacity: f64,
}

/// A flow: the traffic of a provider to one boundary router, from all or from one of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The index of the provider.
    pub provider: u32,
    /// The boundary router.
    pub egress: RouterId,
    /// The entry where the traffic comes in at present, if it is a single one.
    pub entry: Option<u32>,
    /// The demand in units.
    pub demand: f64,
    /// The weight: (3.2) times the weight of the provider.
    pub weight: f64,
    /// The least rate that the flow must get, in units.
    pub floor: f64,
    /// The index of the first choice.
    pub first: u32,
    /// The index after the last choice.
    pub last: u32,
}

impl Flow {
    /// Returns the indices of the flow's choices.
    pub fn choices(&self) -> std::ops::Range<usize> {
        self.first as usize..self.last as usize
    }
}

/// A choice of a flow: an entry and a path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The index of the entry among the provider's.
    pub entry: u32,
    /// The length of the path: the sum of its metrics.
    pub length: u64,
    /// Whether the choice is part of the present routing.
    pub present: bool,
    /// The range of the choice's resources in `uses` of the problem, end exclusive; the
    /// interconnection comes first.
    first: u32,
    last: u32,
}

/// The flows with their choices, and the capacities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// The mean demand in bits per second, which is one unit.
    pub unit: f64,
    /// The number of providers.
    pub providers: usize,
    /// All flows, by provider, boundary router and entry.
    pub flows: Vec<Flow>,
    /// The choices of all flows.
    pub choices: Vec<Choice>,
    /// The links and interconnections that limit flows.
    pub resources: Vec<Resource>,
    uses: Vec<u32>,
}

impl Problem {
    /// Builds the flows of `network` under `freedom`; paths that `paths` lacks are computed.
    ///
    /// Flows without a path, in a network of several parts, have no choices.
    pub fn new(network: &Network, paths: &mut PathCache, freedom: Freedom, grain: Grain) -> Self {
        let mut builder = Builder::new(network);
        let groups = builder.groups(freedom, grain);
        let pairs: BTreeSet<_> = groups
            .iter()
            .flat_map(|g| {
                g.entries.iter().map(|e| {
                    (network.providers[g.provider as usize].entries[*e as usize].router, g.egress)
                })
            })
            .collect();
        paths.fill(&network.topology, pairs);
        for group in groups {
            builder.add(&group, paths, freedom);
        }
        builder.problem
    }

    /// Returns the resources that a choice uses, by index.
    pub fn uses(&self, choice: &Choice) -> &[u32] {
        &self.uses[choice.first as usize..choice.last as usize]
    }

    /// Returns the links of a choice's path, in order.
    pub fn links(&self, choice: &Choice) -> impl Iterator<Item = LinkId> {
        self.uses(choice).iter().filter_map(|r| match self.resources[*r as usize].kind {
            ResourceKind::Link(link) => Some(link),
            ResourceKind::Entry(..) => None,
        })
    }

    /// Returns the demand of all flows, in units.
    pub fn demand(&self) -> f64 {
        self.flows.iter().map(|f| f.demand).sum()
    }

    /// Returns this problem with only the choices for which `keep` holds, given the indices of flow
    /// and choice.
    pub fn restricted(&self, keep: impl Fn(usize, usize) -> bool) -> Self {
        let mut restricted = Self { flows: Vec::new(), choices: Vec::new(), ..self.clone() };
        for (at, flow) in self.flows.iter().enumerate() {
            let first = restricted.choices.len() as u32;
            restricted
                .choices
                .extend(flow.choices().filter(|c| keep(at, *c)).map(|c| self.choices[c]));
            restricted.flows.push(Flow { first, last: restricted.choices.len() as u32, ..*flow });
        }
        restricted
    }

    /// Returns the problem of some flows alone, with a `share` of every capacity.
    pub fn part(&self, keep: impl Fn(usize) -> bool, share: f64) -> Self {
        let mut part = Self { flows: Vec::new(), choices: Vec::new(), ..self.clone() };
        for (_, flow) in self.flows.iter().enumerate().filter(|(at, _)| keep(*at)) {
            let first = part.choices.len() as u32;
            part.choices.extend_from_slice(&self.choices[flow.choices()]);
            part.flows.push(Flow { first, last: part.choices.len() as u32, ..*flow });
        }
        part.resources.iter_mut().for_each(|r| r.capacity *= share);
        part
    }

    /// Cuts each flow into one flow for each choice that it uses by `shares`, a rate for each
    /// choice.
    ///
    /// Each gets its part of the flow's `demand`, in units. A flow that uses no choice keeps its
    /// present one.
    pub fn split(&self, shares: &[f64], demand: impl Fn(&Flow) -> f64) -> Self {
        let mut split = Self { flows: Vec::new(), choices: Vec::new(), ..self.clone() };
        for flow in &self.flows {
            let all: f64 = shares[flow.choices()].iter().sum();
            let mut now = demand(flow);
            // A share below this is numerical residue of the solver, also where it is all of them.
            let residue = (all * 1e-6).max(flow.demand * 1e-9);
            let taken = |c: &usize| shares[*c] > residue;
            let mut ways: Vec<(usize, f64)> =
                flow.choices().filter(taken).map(|c| (c, shares[c] / all)).collect();
            if ways.is_empty() {
                let present = flow.choices().find(|c| self.choices[*c].present);
                ways.extend(present.or(flow.choices().next()).map(|c| (c, 1.0)));
            }
            // A weight must be above zero.
            now = now.max(1e-9);
            for (choice, part) in ways {
                let first = split.choices.len() as u32;
                split.choices.push(self.choices[choice]);
                split.flows.push(Flow {
                    demand: now * part,
                    weight: now * part * flow.weight / flow.demand,
                    floor: 0.0,
                    first,
                    last: first + 1,
                    ..*flow
                });
            }
        }
        split
    }

    /// Reduces the capacity of each resource by what others have `taken`, in bits per second.
    pub fn occupy(&mut self, taken: impl Fn(ResourceKind) -> f64) {
        for resource in &mut self.resources {
            resource.capacity = (resource.capacity - taken(resource.kind) / self.unit).max(0.0);
        }
    }

    /// Joins this problem with the flows of `other` for which `keep` holds.
    ///
    /// Returns also the factor that converts rates of the other problem to this one's unit.
    /// Capacities are those of `other`, where it has the resource.
    pub fn joined(mut self, other: &Self, keep: impl Fn(&Flow) -> bool) -> (Self, f64) {
        let scale = other.unit / self.unit;
        let mut numbers: BTreeMap<ResourceKind, u32> =
            self.resources.iter().zip(0..).map(|(r, n)| (r.kind, n)).collect();
        let mut number_of = Vec::with_capacity(other.resources.len());
        for resource in &other.resources {
            let capacity = resource.capacity * scale;
            let number = *numbers.entry(resource.kind).or_insert(self.resources.len() as u32);
            match self.resources.get_mut(number as usize) {
                Some(own) => own.capacity = capacity,
                None => self.resources.push(Resource { kind: resource.kind, capacity }),
            }
            number_of.push(number);
        }
        for flow in other.flows.iter().filter(|f| keep(f)) {
            let start = self.choices.len() as u32;
            for choice in &other.choices[flow.choices()] {
                let first = self.uses.len() as u32;
                self.uses.extend(other.uses(choice).iter().map(|r| number_of[*r as usize]));
                self.choices.push(Choice { first, last: self.uses.len() as u32, ..*choice });
            }
            let (demand, weight, floor) =
                (flow.demand * scale, flow.weight * scale, flow.floor * scale);
            self.flows.push(Flow {
                demand,
                weight,
                floor,
                first: start,
                last: self.choices.len() as u32,
                ..*flow
            });
        }
        (self, scale)
    }

    /// Returns the load of `shares`, a rate for each choice, on each resource.
    pub fn load(&self, shares: &[f64]) -> Vec<f64> {
        let mut load = vec![0.0; self.resources.len()];
        for (choice, share) in self.choices.iter().zip(shares) {
            for resource in self.uses(choice) {
                load[*resource as usize] += share;
            }
        }
        load
    }

    /// Returns the rate that `shares` give each flow.
    pub fn rates(&self, shares: &[f64]) -> Vec<f64> {
        self.flows.iter().map(|f| shares[f.choices()].iter().sum()).collect()
    }
}
