//! A plan: the present routing and the proposed routing, each with what the providers get.

mod page;
mod report;
mod text;

pub use report::{Aggregate, Figures, FlowChange, LinkUse, ProviderResult, Report, Share};

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::allocate::{Allocation, Method, single_ways};
use crate::fairness;
use crate::lp::SolveError;
use crate::network::{Demand, Network};
use crate::paths::PathCache;
use crate::problem::{Flow, Freedom, Grain, Problem, ResourceKind};
use crate::topology::RouterId;

/// Which part of the routing may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The paths of all providers, and the entries of those that participate. The others get at
    /// least what the present routing gives them (OptAll, section 3.5.3).
    All,
    /// The paths and entries of the providers that participate. The others keep their routing and
    /// their rates (OptPartial).
    Partial,
    /// The paths of all providers and no entries: what the ISP can do alone.
    Intra,
}

/// How a plan is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The method that divides capacity between flows.
    pub method: Method,
    /// Which part of the routing may change.
    pub scope: Scope,
    /// The number of sub-flows that each aggregate flow is cut into, each with a single path.
    /// `None` lets a flow use several paths at once.
    pub sub_flows: Option<u16>,
    /// The number of paths between each entry and boundary router.
    pub paths: NonZeroUsize,
}

/// A routing and the traffic that it carries.
#[derive(Clone, Debug)]
pub struct Routing {
    /// The flows, their choices and the capacities.
    pub problem: Problem,
    /// The rate of each flow and choice.
    pub allocation: Allocation,
}

impl Routing {
    /// Computes the present routing: early exit and shortest paths, with capacity divided by
    /// `method`.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn present(
        network: &Network,
        paths: &mut PathCache,
        method: &Method,
    ) -> Result<Self, SolveError> {
        let problem = Problem::new(network, paths, Freedom::Present, Grain::Summed);
        let allocation = method.allocate(&problem)?;
        Ok(Self { problem, allocation })
    }

    /// Computes the routing that `config` proposes, given the `present` one.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn proposed(
        network: &Network,
        paths: &mut PathCache,
        config: &Config,
        present: &Self,
    ) -> Result<Self, SolveError> {
        let grain = config.sub_flows.map_or(Grain::Summed, Grain::Aggregates);
        match config.scope {
            Scope::Intra => {
                let problem = Problem::new(network, paths, Freedom::Intra, grain);
                Self::divided(problem, config)
            }
            Scope::All => {
                let mut problem = Problem::new(network, paths, Freedom::Joint, grain);
                present.set_floors(network, &mut problem);
                Self::divided(problem, config)
            }
            Scope::Partial => {
                let all = |participates: bool| {
                    let of = |d: &&Demand| {
                        network.providers[d.provider as usize].participates == participates
                    };
                    network.demands.iter().filter(of).copied().collect()
                };
                let joining = Network { demands: all(true), ..network.clone() };
                let mut problem = Problem::new(&joining, paths, Freedom::Joint, grain);
                let taken =
                    present.load_of(|provider| !network.providers[provider as usize].participates);
                problem.occupy(|kind| taken.get(&kind).copied().unwrap_or(0.0));
                Ok(Self::divided(problem, config)?.with_rest_of(present, network))
            }
        }
    }

    /// Computes the routing of all paths and of the participants' entries without any floors:
    /// Algorithm 1 and program (3.1) as they are printed.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn without_floors(
        network: &Network,
        paths: &mut PathCache,
        config: &Config,
    ) -> Result<Self, SolveError> {
        let grain = config.sub_flows.map_or(Grain::Summed, Grain::Aggregates);
        Self::divided(Problem::new(network, paths, Freedom::Joint, grain), config)
    }

    /// Computes the best routing inside the ISP for `network`, whose demands keep their entries.
    ///
    /// Providers that do not participate get at least what `present` gives them, even if `present`
    /// is for other demands of those that do.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn inside(
        network: &Network,
        paths: &mut PathCache,
        config: &Config,
        present: &Self,
    ) -> Result<Self, SolveError> {
        let mut problem = Problem::new(network, paths, Freedom::Intra, Grain::Summed);
        present.set_floors(network, &mut problem);
        Self::divided(problem, &Config { sub_flows: None, ..*config })
    }

    /// Allocates, and rounds to single paths where flows may not be split.
    fn divided(problem: Problem, config: &Config) -> Result<Self, SolveError> {
        let allocation = config.method.allocate(&problem)?;
        if config.sub_flows.is_none() {
            return Ok(Self { problem, allocation });
        }
        let ways = single_ways(&problem, &allocation);
        let mut single = problem.restricted(|flow, choice| ways[flow] == Some(choice));
        // With one path each, floors may be infeasible. They are guaranteed to flows that may be
        // split.
        single.flows.iter_mut().for_each(|f| f.floor = 0.0);
        let allocation = config.method.allocate(&single)?;
        Ok(Self { problem: single, allocation })
    }

    /// Sets the floors of flows of non-participants to what they get at present.
    fn set_floors(&self, network: &Network, problem: &mut Problem) {
        let now: BTreeMap<_, _> = self
            .problem
            .flows
            .iter()
            .zip(&self.allocation.rates)
            .map(|(f, rate)| ((f.provider, f.egress, f.entry), rate * self.problem.unit))
            .collect();
        let mut copies: BTreeMap<_, f64> = BTreeMap::new();
        for flow in &problem.flows {
            *copies.entry((flow.provider, flow.egress, flow.entry)).or_default() += 1.0;
        }
        for flow in &mut problem.flows {
            let key = (flow.provider, flow.egress, flow.entry);
            if !network.providers[flow.provider as usize].participates {
                let rate = now.get(&key).copied().unwrap_or(0.0) / problem.unit / copies[&key];
                // The margin covers rounding errors.
                flow.floor = (rate * (1.0 - 1e-9) - 1e-9).max(0.0);
            }
        }
    }

    /// Returns the load of some providers' flows on each resource, in bits per second.
    fn load_of(&self, of: impl Fn(u32) -> bool) -> BTreeMap<ResourceKind, f64> {
        let mut shares = vec![0.0; self.allocation.shares.len()];
        for flow in self.problem.flows.iter().filter(|f| of(f.provider)) {
            shares[flow.choices()].copy_from_slice(&self.allocation.shares[flow.choices()]);
        }
        let load = self.problem.load(&shares);
        self.problem
            .resources
            .iter()
            .zip(load)
            .map(|(r, l)| (r.kind, l * self.problem.unit))
            .collect()
    }

    /// Joins this routing of the participants with the present routing of the others.
    fn with_rest_of(self, present: &Self, network: &Network) -> Self {
        let others = |provider: u32| !network.providers[provider as usize].participates;
        let theirs = present.problem.flows.iter().filter(|f| others(f.provider));
        let theirs = theirs.flat_map(|f| &present.allocation.shares[f.choices()]);
        let (problem, scale) = self.problem.joined(&present.problem, |f| others(f.provider));
        let mut shares = self.allocation.shares;
        shares.extend(theirs.map(|s| s * scale));
        let rates = problem.rates(&shares);
        Self { problem, allocation: Allocation { shares, rates } }
    }

    /// Returns the traffic that is carried if no flow sends more than this routing gives it, in
    /// bits per second.
    ///
    /// Capacity that a flow does not use is lost, and so is demand beyond what it was given.
    pub fn reserved(&self, network: &Network) -> f64 {
        let now = Sums::of(network);
        let given = self.problem.flows.iter().zip(&self.allocation.rates);
        given.map(|(flow, rate)| now.of_flow(flow).min(rate * self.problem.unit)).sum()
    }

    /// Applies this routing to the demands of `network`, which may differ from those it was
    /// computed for.
    ///
    /// Each flow keeps its paths and its split between them, and capacity is divided anew. Flows
    /// that got nothing use their present path.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn kept(&self, network: &Network, method: &Method) -> Result<Self, SolveError> {
        let now = Sums::of(network);
        let problem = self
            .problem
            .split(&self.allocation.shares, |flow| now.of_flow(flow) / self.problem.unit);
        let allocation = method.allocate(&problem)?;
        Ok(Self { problem, allocation })
    }

    /// Returns what each provider gets, in bits per second.
    pub fn by_provider(&self) -> Vec<f64> {
        let rates = fairness::by_provider(&self.problem, &self.allocation.rates);
        rates.into_iter().map(|r| r * self.problem.unit).collect()
    }

    /// Returns the traffic carried in all, in bits per second.
    pub fn total(&self) -> f64 {
        self.allocation.total() * self.problem.unit
    }
}

/// The demands by provider, router and entry, in bits per second.
struct Sums(BTreeMap<(u32, RouterId, u32), f64>);

impl Sums {
    fn of(network: &Network) -> Self {
        let mut sums = BTreeMap::new();
        for demand in &network.demands {
            *sums.entry((demand.provider, demand.egress, demand.entry)).or_default() +=
                demand.rate.as_bps() as f64;
        }
        Self(sums)
    }

    /// Returns the demand of a flow, in bits per second.
    fn of_flow(&self, flow: &Flow) -> f64 {
        let (low, high) = flow.entry.map_or((0, u32::MAX), |e| (e, e));
        let key = |entry| (flow.provider, flow.egress, entry);
        self.0.range(key(low)..=key(high)).map(|(_, rate)| rate).sum()
    }
}

/// Computes a plan for `network`, usually a core network with a limited number of aggregate flows.
///
/// # Errors
/// If the solver fails.
pub fn plan(
    network: &Network,
    paths: &mut PathCache,
    config: &Config,
) -> Result<Report, SolveError> {
    let present = Routing::present(network, paths, &config.method)?;
    let proposed = Routing::proposed(network, paths, config, &present)?;
    // What each provider could get alone is computed with all freedom, so that both routings are
    // compared with the same values.
    let free = Problem::new(network, paths, Freedom::Joint, Grain::Summed);
    let alone: Vec<f64> = fairness::alone(&free)?.into_iter().map(|r| r * free.unit).collect();
    Ok(Report::new(network, &present, &proposed, &alone, &fairness::weights(&free)))
}
