//! A whole plan: the present routing and the one that is proposed, each with what the providers get of it.

mod report;
mod text;

pub use report::{Aggregate, Figures, LinkUse, ProviderResult, Report, Share};

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use crate::allocate::{Allocation, Method, single_ways};
use crate::fairness;
use crate::lp::SolveError;
use crate::network::{Demand, Network};
use crate::paths::PathCache;
use crate::problem::{Flow, Freedom, Grain, Problem, ResourceKind};
use crate::topology::RouterId;

/// Whose routing may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's paths, and the entries of those that participate; others get at least what the present routing gives
    /// them (OptAll, section 3.5.3).
    All,
    /// Only that of those that participate. Others keep their routing and their rates (OptPartial).
    Partial,
    /// Everybody's paths, and nobody's entry: what the ISP can do alone.
    Intra,
}

/// How a plan is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Who gets how much.
    pub method: Method,
    /// Whose routing may change.
    pub scope: Scope,
    /// `None` lets a flow take several ways at once. Otherwise each aggregate flow is cut into so many sub-flows that
    /// take one way each.
    pub sub_flows: Option<u16>,
    /// Paths of each entry and boundary router.
    pub paths: NonZeroUsize,
}

/// A routing and what it carries.
#[derive(Clone, Debug)]
pub struct Routing {
    /// What was to be decided.
    pub problem: Problem,
    /// What was decided.
    pub allocation: Allocation,
}

impl Routing {
    /// The present routing: early exit and shortest paths. What it carries is divided by `method`.
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

    /// The routing that `config` proposes, where `present` is the present one.
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

    /// Everybody's paths, and the entries of those that participate, where nobody is promised anything: Algorithm 1 and
    /// (3.1) as they are printed, for what the text says of them.
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

    /// The best that the ISP can do inside for `network`, whose demands stay where they come in. Those that do not
    /// participate get at least what `present` gives them, which may be of other demands of those that do.
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

    /// Divides, and rounds to single ways where flows may not be split.
    fn divided(problem: Problem, config: &Config) -> Result<Self, SolveError> {
        let allocation = config.method.allocate(&problem)?;
        if config.sub_flows.is_none() {
            return Ok(Self { problem, allocation });
        }
        let ways = single_ways(&problem, &allocation);
        let mut single = problem.restricted(|flow, choice| ways[flow] == Some(choice));
        // With one way each, floors may be out of reach; they are promised for flows that may be split.
        single.flows.iter_mut().for_each(|f| f.floor = 0.0);
        let allocation = config.method.allocate(&single)?;
        Ok(Self { problem: single, allocation })
    }

    /// Gives the flows of those that do not participate what they have at present as their floors.
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
                // What rounding has added is not asked for.
                flow.floor = (rate * (1.0 - 1e-9) - 1e-9).max(0.0);
            }
        }
    }

    /// What the flows of some providers put on each resource, in bits per second.
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

    /// This routing of some, beside the present one of the others.
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

    /// What is carried of `network`'s demands if no flow sends more than this routing gives it, in bits per second: what
    /// was given to one that has less to send is lost, and what is asked for beyond is too.
    pub fn reserved(&self, network: &Network) -> f64 {
        let now = Sums::of(network);
        let given = self.problem.flows.iter().zip(&self.allocation.rates);
        given.map(|(flow, rate)| now.of_flow(flow).min(rate * self.problem.unit)).sum()
    }

    /// This routing for `network`'s demands, which may be others: each flow keeps its ways and how it is split between
    /// them, and what they carry is divided anew. Flows that got nothing take the present way.
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

    /// What each provider gets, in bits per second.
    pub fn by_provider(&self) -> Vec<f64> {
        let rates = fairness::by_provider(&self.problem, &self.allocation.rates);
        rates.into_iter().map(|r| r * self.problem.unit).collect()
    }

    /// All that is carried, in bits per second.
    pub fn total(&self) -> f64 {
        self.allocation.total() * self.problem.unit
    }
}

/// Demands by what a flow is.
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

    /// What a flow would send, in bits per second.
    fn of_flow(&self, flow: &Flow) -> f64 {
        let (low, high) = flow.entry.map_or((0, u32::MAX), |e| (e, e));
        let key = |entry| (flow.provider, flow.egress, entry);
        self.0.range(key(low)..=key(high)).map(|(_, rate)| rate).sum()
    }
}

/// A plan for `network`, which should be a core of a bearable number of aggregate flows.
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
    // What each could get alone is asked of the problem with all freedom, so that both routings are held against the
    // same.
    let free = Problem::new(network, paths, Freedom::Joint, Grain::Summed);
    let alone: Vec<f64> = fairness::alone(&free)?.into_iter().map(|r| r * free.unit).collect();
    Ok(Report::new(network, &present, &proposed, &alone, &fairness::weights(&free)))
}
