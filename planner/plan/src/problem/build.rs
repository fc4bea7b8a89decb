//! Builds the flows of a problem from the demands of a network.

use std::collections::BTreeMap;

use super::{Choice, Flow, Freedom, Grain, Problem, Resource, ResourceKind};
use crate::network::Network;
use crate::paths::{Path, PathCache};
use crate::topology::RouterId;

/// Demands that become one flow, or one flow for each copy.
pub(super) struct Group {
    pub(super) provider: u32,
    pub(super) egress: RouterId,
    entry: Option<u32>,
    /// The entries that the flow may use, the present ones first.
    pub(super) entries: Vec<u32>,
    /// The entry where the traffic comes in at present.
    present: Vec<u32>,
    demand: f64,
    copies: u16,
}

pub(super) struct Builder<'a> {
    network: &'a Network,
    pub(super) problem: Problem,
    /// The resource of each link and of each entry of each provider, once it is used.
    links: Vec<Option<u32>>,
    entries: Vec<Vec<Option<u32>>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        let problem = Problem {
            unit: 1.0,
            providers: network.providers.len(),
            flows: Vec::new(),
            choices: Vec::new(),
            resources: Vec::new(),
            uses: Vec::new(),
        };
        Self {
            network,
            problem,
            links: vec![None; network.topology.links().len()],
            entries: network.providers.iter().map(|p| vec![None; p.entries.len()]).collect(),
        }
    }

    pub(super) fn groups(&mut self, freedom: Freedom, grain: Grain) -> Vec<Group> {
        let mut groups: BTreeMap<(u32, RouterId, Option<u32>), Group> = BTreeMap::new();
        for demand in self.network.demands.iter().filter(|d| d.rate.as_bps() > 0) {
            let provider = &self.network.providers[demand.provider as usize];
            let joint = freedom == Freedom::Joint && provider.participates;
            let summed = joint && grain == Grain::Summed;
            let entry = (!summed).then_some(demand.entry);
            let group =
                groups.entry((demand.provider, demand.egress, entry)).or_insert_with(|| Group {
                    provider: demand.provider,
                    egress: demand.egress,
                    entry,
                    entries: match joint {
                        true => self.open(demand.provider, demand.egress),
                        false => vec![demand.entry],
                    },
                    present: Vec::new(),
                    demand: 0.0,
                    copies: match grain {
                        Grain::Summed => 1,
                        Grain::Aggregates(n) => n.max(1),
                    },
                });
            group.demand += demand.rate.as_bps() as f64;
            if !group.present.contains(&demand.entry) {
                group.present.push(demand.entry);
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        // If all entries are avoided, the traffic stays at its present ones.
        for group in groups.iter_mut().filter(|g| g.entries.is_empty()) {
            group.entries.clone_from(&group.present);
        }
        // One unit is the mean demand of a flow, copies counted, so that weights (3.2) are demands
        // in units.
        let flows: f64 = groups.iter().map(|g| f64::from(g.copies)).sum();
        let total: f64 = groups.iter().map(|g| g.demand).sum();
        self.problem.unit = if total > 0.0 { total / flows } else { 1.0 };
        groups
    }

    /// Returns the entries of a provider that it does not avoid for the users behind `egress`.
    fn open(&self, provider: u32, egress: RouterId) -> Vec<u32> {
        let entries = 0..self.network.providers[provider as usize].entries.len() as u32;
        entries.filter(|e| !self.network.avoided.contains(&(provider, *e, egress))).collect()
    }

    pub(super) fn add(&mut self, group: &Group, paths: &PathCache, freedom: Freedom) {
        let provider = &self.network.providers[group.provider as usize];
        let demand = group.demand / self.problem.unit / f64::from(group.copies);
        for _ in 0..group.copies {
            let first = self.problem.choices.len() as u32;
            for &entry in &group.entries {
                let found = paths.get(provider.entries[entry as usize].router, group.egress);
                let take = if freedom == Freedom::Present { 1 } else { found.len() };
                for (at, path) in found.iter().take(take).enumerate() {
                    let present = at == 0 && group.present.contains(&entry);
                    self.choose(group.provider, entry, path, present);
                }
            }
            self.problem.flows.push(Flow {
                provider: group.provider,
                egress: group.egress,
                entry: group.entry,
                demand,
                weight: demand * provider.weight,
                floor: 0.0,
                first,
                last: self.problem.choices.len() as u32,
            });
        }
    }

    fn choose(&mut self, provider: u32, entry: u32, path: &Path, present: bool) {
        let first = self.problem.uses.len() as u32;
        let kinds = std::iter::once(ResourceKind::Entry(provider, entry))
            .chain(path.links.iter().map(|l| ResourceKind::Link(*l)));
        for kind in kinds {
            let number = self.number(kind);
            self.problem.uses.push(number);
        }
        let last = self.problem.uses.len() as u32;
        self.problem.choices.push(Choice { entry, length: path.length, present, first, last });
    }

    fn number(&mut self, kind: ResourceKind) -> u32 {
        let (network, problem) = (self.network, &mut self.problem);
        let number = match kind {
            ResourceKind::Link(link) => &mut self.links[link.index()],
            ResourceKind::Entry(provider, entry) => {
                &mut self.entries[provider as usize][entry as usize]
            }
        };
        *number.get_or_insert_with(|| {
            let capacity = match kind {
                ResourceKind::Link(link) => network.topology.link(link).capacity,
                ResourceKind::Entry(provider, entry) => {
                    network.providers[provider as usize].entries[entry as usize].capacity
                }
            };
            let capacity = capacity.map_or(f64::INFINITY, |c| c.as_bps() as f64 / problem.unit);
            problem.resources.push(Resource { kind, capacity });
            problem.resources.len() as u32 - 1
        })
    }
}
