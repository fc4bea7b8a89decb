//! Networks and traffic generated from a seed, for benchmarks, tests and studies: the set-up of
//! section 3.5.1.

use std::collections::BTreeSet;

use forebay_units::Rate;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::network::{Demand, Entry, Network, Provider};
use crate::topology::{Link, LinkId, Router, RouterId, Topology};

/// A random number generator whose numbers are the same on every machine.
#[derive(Clone, Debug)]
pub struct Draw(ChaCha12Rng);

impl Draw {
    /// Creates a generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha12Rng::seed_from_u64(seed))
    }

    /// Returns a number from 0 to 1, 1 excluded.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// Returns a size from a heavy-tailed distribution of mean near 1, like the populations of
    /// towns.
    ///
    /// A product of twelve uniform numbers is nearly log-normal, and needs no function that differs
    /// between machines.
    pub fn size(&mut self) -> f64 {
        (0..12).map(|_| 0.55 + self.unit() * 0.9).product()
    }
}

/// Returns a network of `routers` in the plane with short links.
///
/// Each router is linked to its nearest earlier one; then the shortest of the other pairs are
/// linked until there are `links` per router. The networks of the Topology Zoo have about 1.3.
pub fn plane(routers: usize, links: f64, draw: &mut Draw) -> Topology {
    let places: Vec<(f64, f64)> = (0..routers).map(|_| (draw.unit(), draw.unit())).collect();
    let distance = |a: usize, b: usize| {
        let (x, y) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
        x * x + y * y
    };
    let mut pairs = BTreeSet::new();
    for router in 1..routers {
        if let Some(nearest) =
            (0..router).min_by(|a, b| distance(*a, router).total_cmp(&distance(*b, router)))
        {
            pairs.insert((nearest, router));
        }
    }
    let mut others: Vec<(usize, usize)> = (0..routers)
        .flat_map(|a| (a + 1..routers).map(move |b| (a, b)))
        .filter(|p| !pairs.contains(p))
        .collect();
    others.sort_by(|a, b| distance(a.0, a.1).total_cmp(&distance(b.0, b.1)));
    let more = ((routers as f64 * links) as usize).saturating_sub(pairs.len());
    // Takes every third pair, so that not all links are in the densest area.
    pairs.extend(others.into_iter().step_by(3).take(more));
    let both = pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let link = |(a, b): (usize, usize)| Link {
        from: RouterId(a as u32),
        to: RouterId(b as u32),
        capacity: None,
        metric: 1,
    };
    let names = (0..routers).map(|n| Router { name: format!("r{n}"), serves: true });
    Topology::new(format!("plane-{routers}"), names.collect(), both.map(link).collect(), Vec::new())
}

/// The parameters of the generated traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetUp {
    /// The number of content providers.
    pub providers: usize,
    /// The number of providers that follow hints; these are the first ones.
    pub participating: usize,
    /// The most entries of a provider; the number is drawn from 1 on.
    pub entries: usize,
    /// The demand of all providers together.
    pub total: Rate,
    /// The range of the interconnections' capacities, relative to their load under early exit.
    pub interconnection: (f64, f64),
    /// The capacity of all links, relative to the load of the most loaded one.
    pub core: f64,
}

impl Default for SetUp {
    /// Returns twenty providers with one to five entries each (section 3.5.1), and congestion on
    /// some interconnections and some links.
    fn default() -> Self {
        Self {
            providers: 20,
            participating: 20,
            entries: 5,
            total: Rate::from_mbps(1_000_000),
            interconnection: (0.5, 1.5),
            core: 0.5,
        }
    }
}

impl SetUp {
    /// Generates providers, gravity demands and capacities around `topology`, whose own capacities
    /// are replaced.
    ///
    /// Each provider has some sources with sizes from a heavy-tailed distribution. The traffic of a
    /// source comes in at the provider's entry nearest to it: early exit. The traffic from a source
    /// to a router is in proportion to the sizes of both (gravity).
    pub fn network(&self, mut topology: Topology, draw: &mut Draw) -> Network {
        let serving: Vec<RouterId> =
            topology.ids().filter(|r| topology.routers()[r.index()].serves).collect();
        let users: Vec<f64> = serving.iter().map(|_| draw.size()).collect();
        let all_users: f64 = users.iter().sum();
        let mut providers = Vec::new();
        let mut masses = Vec::new();
        for number in 0..self.providers {
            let entries = 1 + draw.below(self.entries);
            let mut routers = BTreeSet::new();
            while routers.len() < entries.min(serving.len()) {
                routers.insert(serving[draw.below(serving.len())]);
            }
            let routers: Vec<RouterId> = routers.into_iter().collect();
            let size = draw.size();
            let mut mass = vec![0.0; routers.len()];
            let sources: Vec<(usize, f64)> =
                (0..3 * routers.len()).map(|_| (draw.below(routers.len()), draw.size())).collect();
            let all: f64 = sources.iter().map(|s| s.1).sum();
            for (entry, part) in sources {
                mass[entry] += size * part / all;
            }
            masses.push(mass);
            providers.push(Provider {
                name: format!("cp{}", number + 1),
                participates: number < self.participating,
                weight: 1.0,
                entries: routers
                    .into_iter()
                    .map(|router| Entry { router, capacity: None })
                    .collect(),
            });
        }
        let all: f64 = masses.iter().flatten().sum();
        let mut demands = Vec::new();
        for (provider, mass) in masses.iter().enumerate() {
            for (entry, mass) in mass.iter().enumerate() {
                for (egress, users) in serving.iter().zip(&users) {
                    let rate = self.total.scaled(mass / all * users / all_users);
                    // Traffic to users at the ingress router uses the interconnection but no link.
                    let (provider, entry) = (provider as u32, entry as u32);
                    demands.push(Demand { provider, entry, egress: *egress, rate });
                }
            }
        }
        for (provider, neighbour) in providers.iter_mut().enumerate() {
            for (at, entry) in neighbour.entries.iter_mut().enumerate() {
                let own = demands
                    .iter()
                    .filter(|d| d.provider as usize == provider && d.entry as usize == at);
                let sent: u64 = own.map(|d| d.rate.as_bps()).sum();
                let (low, high) = self.interconnection;
                let part = low + (high - low) * draw.unit();
                entry.capacity = Some(Rate::from_bps_f64(sent as f64 * part));
            }
        }
        let most =
            crate::load::shortest(&topology, &providers, &demands).into_iter().fold(0.0, f64::max);
        let capacity = Rate::from_bps_f64(most * self.core);
        topology.set_capacities(|_: LinkId, _| Some(capacity));
        Network { topology, providers, demands, avoided: BTreeSet::new() }
    }
}
