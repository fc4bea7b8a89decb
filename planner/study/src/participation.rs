//! Figures 3.9 and 3.10, and one neighbour alone: the effect of who participates.

use forebay_plan::allocate::Method;
use forebay_plan::fairness;
use forebay_plan::lp::SolveError;
use forebay_plan::network::Network;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Config, Routing, Scope};
use forebay_plan::problem::{Freedom, Grain, Problem};
use forebay_plan::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::gain::{config, more};
use crate::setting::Interconnections;
use crate::stats::{mean, median};
use crate::{PATHS, Progress, Setup, setting};

/// WBA beside the multi-commodity flow, for one number of participants: medians over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fair {
    /// The topology's name.
    pub name: String,
    /// The number of participants.
    pub participants: usize,
    /// The share of the demand that WBA carries.
    pub wba: f64,
    /// The share of the demand that the multi-commodity flow carries.
    pub most: f64,
    /// The weighted fairness index of WBA.
    pub wba_wfi: f64,
    /// The weighted fairness index of the multi-commodity flow.
    pub most_wfi: f64,
    /// WBA's total over that of the multi-commodity flow, the lowest of all seeds.
    pub worst: f64,
}

/// A reading of the set-up of figure 3.9, which the thesis leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As in all other figures here: the capacity of an interconnection is its demand divided by
    /// the published figure, so half of them are overloaded, and a provider that does not
    /// participate keeps at least what early exit gives it.
    Divided,
    /// To the letter: the capacity of an interconnection is its demand multiplied by the published
    /// figure (section 3.5.1), and no provider has a floor, as in (3.1) and Algorithm 1.
    Literal,
}

impl Reading {
    /// Both readings, in the page's order.
    pub const ALL: [Self; 2] = [Self::Divided, Self::Literal];

    /// The name of the reading on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Divided => "reading 1",
            Self::Literal => "reading 2",
        }
    }
}

/// The numbers of participants that are tried.
pub(super) const PARTICIPANTS: [usize; 7] = [3, 5, 8, 11, 14, 17, 20];

/// The rate that each provider could get alone, in bits per second, and the providers' weights.
fn alone(network: &Network, paths: &mut PathCache) -> Result<(Vec<f64>, Vec<f64>), SolveError> {
    let free = Problem::new(network, paths, Freedom::Joint, Grain::Summed);
    let alone = fairness::alone(&free)?.into_iter().map(|r| r * free.unit).collect();
    Ok((alone, fairness::weights(&free)))
}

/// Runs figure 3.9 on one topology in one reading.
pub(super) fn fair(
    setup: &Setup<'_>,
    isp: &Topology,
    reading: Reading,
    progress: Progress<'_>,
) -> Result<Vec<Fair>, SolveError> {
    let mut paths = PathCache::new(PATHS);
    let mut out = Vec::new();
    for participants in PARTICIPANTS {
        let (mut totals, mut indices, mut ratios) = ([vec![], vec![]], [vec![], vec![]], vec![]);
        for seed in 1..=setup.seeds {
            progress(&format!(
                "fairness: {}, {participants} participants, seed {seed}",
                isp.name()
            ));
            let interconnections = match reading {
                Reading::Divided => Interconnections::Divided,
                Reading::Literal => Interconnections::Multiplied,
            };
            let network = setting::network_of(
                isp,
                setup.topologies,
                participants,
                setup.congestion,
                interconnections,
                seed,
            );
            let (alone, weights) = alone(&network, &mut paths)?;
            let asked: f64 = network.demands.iter().map(|d| d.rate.as_bps() as f64).sum();
            let wba = config(Scope::All, None);
            let most = Config { method: Method::Most, ..wba };
            for (at, config) in [wba, most].into_iter().enumerate() {
                let routing = if reading == Reading::Literal {
                    Routing::without_floors(&network, &mut paths, &config)?
                } else {
                    // A provider that does not participate keeps what early exit gives it. WBA
                    // divides early exit for both methods.
                    let present = Routing::present(&network, &mut paths, &wba.method)?;
                    Routing::proposed(&network, &mut paths, &config, &present)?
                };
                totals[at].push(routing.total() / asked);
                let satisfied = fairness::satisfaction(&routing.by_provider(), &alone);
                indices[at].push(fairness::index(&satisfied, &weights));
            }
            ratios.push(totals[0][totals[0].len() - 1] / totals[1][totals[1].len() - 1]);
        }
        out.push(Fair {
            name: isp.name().to_owned(),
            participants,
            wba: median(&totals[0]),
            most: median(&totals[1]),
            wba_wfi: median(&indices[0]),
            most_wfi: median(&indices[1]),
            worst: crate::stats::lowest(&ratios),
        });
    }
    Ok(out)
}

/// The gains by one neighbour that participates alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct One {
    /// The topology's name.
    pub name: String,
    /// The gain for each seed and provider, over no participants with paths inside the ISP
    /// optimised.
    pub gains: Vec<f64>,
}

/// Runs each provider as the only participant.
pub(super) fn one(
    setup: &Setup<'_>,
    isp: &Topology,
    progress: Progress<'_>,
) -> Result<One, SolveError> {
    let mut paths = PathCache::new(PATHS);
    let mut gains = Vec::new();
    for seed in 1..=setup.seeds {
        progress(&format!("one neighbour: {}, seed {seed}", isp.name()));
        let mut network = setting::network(isp, setup.topologies, 0, setup.congestion, seed);
        let config = config(Scope::All, None);
        let present = Routing::present(&network, &mut paths, &config.method)?;
        let without = Routing::proposed(&network, &mut paths, &config, &present)?.total();
        for provider in 0..network.providers.len() {
            network.providers[provider].participates = true;
            let one = Routing::proposed(&network, &mut paths, &config, &present)?.total();
            gains.push(more(without, one));
            network.providers[provider].participates = false;
        }
    }
    Ok(One { name: isp.name().to_owned(), gains })
}

/// OptAll beside OptPartial, with ten of twenty providers participating. Gains are over early exit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// The topology's name.
    pub name: String,
    /// The number of the set of participants, from 1.
    pub set: usize,
    /// The gain of the network under OptAll and under OptPartial.
    pub total: (f64, f64),
    /// The gain of each participant under OptAll and under OptPartial.
    pub joining: Vec<(f64, f64)>,
    /// The gain of each other provider under OptAll and under OptPartial.
    pub staying: Vec<(f64, f64)>,
}

/// The sets of participants: the first ten, the last ten, every other one, and the others.
const SETS: [fn(usize) -> bool; 4] = [|n| n < 10, |n| n >= 10, |n| n % 2 == 0, |n| n % 2 == 1];

/// Runs figure 3.10 on one topology.
pub(super) fn partial(
    setup: &Setup<'_>,
    isp: &Topology,
    progress: Progress<'_>,
) -> Result<Vec<Partial>, SolveError> {
    let mut paths = PathCache::new(PATHS);
    let mut out = Vec::new();
    for (set, joins) in SETS.iter().enumerate() {
        progress(&format!("OptAll and OptPartial: {}, set {}", isp.name(), set + 1));
        let mut network = setting::network(isp, setup.topologies, 0, setup.congestion, 1);
        for (at, provider) in network.providers.iter_mut().enumerate() {
            provider.participates = joins(at);
        }
        let all = config(Scope::All, None);
        let partial = config(Scope::Partial, None);
        let present = Routing::present(&network, &mut paths, &all.method)?;
        let all = Routing::proposed(&network, &mut paths, &all, &present)?;
        let partial = Routing::proposed(&network, &mut paths, &partial, &present)?;
        let before = present.by_provider();
        let (by_all, by_partial) = (all.by_provider(), partial.by_provider());
        let each = |wanted: bool| {
            let own = (0..network.providers.len()).filter(move |p| joins(*p) == wanted);
            own.map(|p| (more(before[p], by_all[p]), more(before[p], by_partial[p]))).collect()
        };
        out.push(Partial {
            name: isp.name().to_owned(),
            set: set + 1,
            total: (more(present.total(), all.total()), more(present.total(), partial.total())),
            joining: each(true),
            staying: each(false),
        });
    }
    Ok(out)
}

impl Partial {
    /// The mean gains of participants and of the others, each under OptAll and under OptPartial.
    pub fn means(&self) -> [(f64, f64); 2] {
        [&self.joining, &self.staying].map(|gains| {
            let (all, partial): (Vec<f64>, Vec<f64>) = gains.iter().copied().unzip();
            (mean(&all), mean(&partial))
        })
    }
}
