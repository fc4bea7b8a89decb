//! What the optimiser works on: flows, the ways that each may take, and what limits them.
//!
//! A way (a [`Choice`]) is an entry point of the provider's and a path from there through the network. What limits is
//! a [`Resource`]: a link, or an interconnection with a provider. Rates are in multiples of the mean demand, so that
//! the solver sees numbers near one whatever the network's size; [`Problem::unit`] gives bits per second back.

mod build;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use build::Builder;

use crate::network::Network;
use crate::paths::PathCache;
use crate::topology::{LinkId, RouterId};

/// What may be changed of the present routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Nothing: each aggregate flow stays at its entry point and on the shortest path (early exit and OSPF).
    Present,
    /// Paths inside the network; no entry point. No setting of OSPF's metrics can do better.
    Intra,
    /// Paths, and the entry points of providers that participate: Unison.
    Joint,
}

/// What one flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// The sum over all entry points that the optimiser may choose between: a row of the inter-domain matrix
    /// (section 3.4.1).
    Summed,
    /// An aggregate flow, of one present entry point, cut into so many equal sub-flows (section 3.5.4). For routings
    /// in which a flow takes one way only.
    Aggregates(u16),
}

/// What limits flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ResourceKind {
    /// A link of the network.
    Link(LinkId),
    /// The interconnection of a provider, by number, at one of its entries, by number.
    Entry(u32, u32),
}

/// A link or an interconnection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resource {
    /// Which.
    pub kind: ResourceKind,
    /// What it carries, in units; infinite if that is unknown, for which JSON has null.
    pub capacity: f64,
}

/// A flow: what a provider sends to one boundary router, from all or from one of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The provider's number.
    pub provider: u32,
    /// The boundary router.
    pub egress: RouterId,
    /// The entry where it comes in at present, if that is one.
    pub entry: Option<u32>,
    /// What it would send, in units.
    pub demand: f64,
    /// Its weight: (3.2), times the provider's.
    pub weight: f64,
    /// What it must get, in units.
    pub floor: f64,
    /// Its choices are those from `first` to `last`, exclusive.
    pub first: u32,
    /// See `first`.
    pub last: u32,
}

impl Flow {
    /// Its choices' numbers.
    pub fn choices(&self) -> std::ops::Range<usize> {
        self.first as usize..self.last as usize
    }
}

/// A way for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The entry's number among the provider's.
    pub entry: u32,
    /// The sum of the path's metrics.
    pub length: u64,
    /// Whether it is part of the present routing.
    pub present: bool,
    /// Its resources are those from `first` to `last`, exclusive, of [`Problem::uses`]; the interconnection first.
    first: u32,
    last: u32,
}

/// Flows, ways and limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// The mean demand, in bits per second: one unit.
    pub unit: f64,
    /// How many providers there are.
    pub providers: usize,
    /// All flows, by provider, boundary router and entry.
    pub flows: Vec<Flow>,
    /// All flows' choices.
    pub choices: Vec<Choice>,
    /// What limits them.
    pub resources: Vec<Resource>,
    uses: Vec<u32>,
}

impl Problem {
    /// The flows of `network` under `freedom`. `paths` is filled where it must be.
    ///
    /// Flows without a way (the network has parts) are there, with no choices.
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

    /// The resources that a choice uses, by number.
    pub fn uses(&self, choice: &Choice) -> &[u32] {
        &self.uses[choice.first as usize..choice.last as usize]
    }

    /// The links of a choice's path, in order.
    pub fn links(&self, choice: &Choice) -> impl Iterator<Item = LinkId> {
        self.uses(choice).iter().filter_map(|r| match self.resources[*r as usize].kind {
            ResourceKind::Link(link) => Some(link),
            ResourceKind::Entry(..) => None,
        })
    }

    /// All that is asked for, in units.
    pub fn demand(&self) -> f64 {
        self.flows.iter().map(|f| f.demand).sum()
    }

    /// The same, with only the choices for which `keep` holds, which is asked with the flow's number and the choice's.
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

    /// Each flow cut into one for each way that it takes by `shares`, a rate for each choice, with that part of what
    /// `demand` says it would send, in units. A flow that takes none keeps its present way.
    pub fn split(&self, shares: &[f64], demand: impl Fn(&Flow) -> f64) -> Self {
        let mut split = Self { flows: Vec::new(), choices: Vec::new(), ..self.clone() };
        for flow in &self.flows {
            let all: f64 = shares[flow.choices()].iter().sum();
            let mut now = demand(flow);
            // What the solver left over is no way.
            let taken = |c: &usize| shares[*c] > all * 1e-6;
            let mut ways: Vec<(usize, f64)> =
                flow.choices().filter(taken).map(|c| (c, shares[c] / all)).collect();
            if ways.is_empty() {
                let present = flow.choices().find(|c| self.choices[*c].present);
                ways.extend(present.or(flow.choices().next()).map(|c| (c, 1.0)));
            }
            // As a weight it must be above zero.
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

    /// Takes what others have of each resource, in bits per second, from what it carries.
    pub fn occupy(&mut self, taken: impl Fn(ResourceKind) -> f64) {
        for resource in &mut self.resources {
            resource.capacity = (resource.capacity - taken(resource.kind) / self.unit).max(0.0);
        }
    }

    /// This problem and those flows of `other` for which `keep` holds, in this one's unit; and what a rate of the
    /// other's is in that unit. Capacities are those of `other`, where it has them.
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

    /// What `shares`, a rate for each choice, put on each resource.
    pub fn load(&self, shares: &[f64]) -> Vec<f64> {
        let mut load = vec![0.0; self.resources.len()];
        for (choice, share) in self.choices.iter().zip(shares) {
            for resource in self.uses(choice) {
                load[*resource as usize] += share;
            }
        }
        load
    }

    /// What `shares` give each flow.
    pub fn rates(&self, shares: &[f64]) -> Vec<f64> {
        self.flows.iter().map(|f| shares[f.choices()].iter().sum()).collect()
    }
}
