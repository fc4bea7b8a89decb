//! Unison's evaluation (Yimeng Zhao's thesis, section 3.5), tried again with the planner.
//!
//! [`run`] repeats the thesis's figures on its set-up and makes [`Results`], [`claims()`] judges
//! them, and [`page()`] makes the page from them at any time. `forebay plan reproduce` is the
//! command.

#![forbid(unsafe_code)]

mod claims;
mod dynamic;
mod gain;
mod grain;
mod page;
mod participation;
mod pictures;
mod setting;
mod stats;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use forebay_outcome::Commit;
use forebay_plan::lp::SolveError;
use forebay_plan::synthetic::{Draw, plane};
use forebay_plan::topology::Topology;
use serde::{Deserialize, Serialize};

pub use claims::{Claim, claims, tally};
pub use dynamic::{Dynamic, Window};
pub use gain::Gain;
pub use grain::{Cut, Grain};
pub use page::{ages, page};
pub use participation::{Fair, One, Partial, Reading};
pub use pictures::pictures;

/// The number of paths between each entry and boundary router.
const PATHS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);
/// The largest number of routers of a topology that is run twenty times for each seed.
const LARGE: usize = 80;

/// A function that is called with a description of each run.
pub type Progress<'a> = &'a dyn Fn(&str);

/// The settings of a study.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The networks of the ISPs; the providers' networks are drawn from the same.
    pub topologies: &'a [Topology],
    /// The number of seeds; seeds count from 1.
    pub seeds: u64,
    /// The congestion parameter: the capacity of a link over the load of the most loaded one.
    pub congestion: f64,
    /// The largest number of routers of a topology, if there is a limit.
    pub routers: Option<usize>,
}

impl Setup<'_> {
    /// The usual congestion parameter.
    pub const CONGESTION: f64 = setting::CONGESTION;
}

/// The results of a study, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The day of the run in UTC, such as `2026-11-20`.
    #[serde(default)]
    pub date: String,
    /// The commit of the run, if it is known.
    #[serde(default)]
    pub commit: Option<Commit>,
    /// The machine, in words.
    #[serde(default)]
    pub machine: String,
    /// The machine's load at the end.
    #[serde(default)]
    pub load: String,
    /// The bands of each claim at the time of the run, by the claim's words.
    #[serde(default)]
    pub bands: BTreeMap<String, Vec<String>>,
    /// The number of seeds; seeds count from 1.
    pub seeds: u64,
    /// The congestion parameter.
    pub congestion: f64,
    /// Whether the topologies were made up.
    pub synthetic: bool,
    /// The largest number of routers of a topology, if there was a limit.
    pub routers: Option<usize>,
    /// Figures 3.7 and 3.8, by topology.
    pub gains: Vec<Gain>,
    /// The gains with other congestion parameters: the parameter, the highest median gain of a
    /// topology, and the median over topologies.
    pub congestions: Vec<(f64, f64, f64)>,
    /// Figure 3.9 in the first reading of the set-up, [`Reading::Divided`].
    pub fair: Vec<Fair>,
    /// Figure 3.9 in the second reading of the set-up, [`Reading::Literal`].
    pub literal: Vec<Fair>,
    /// The gains by one neighbour alone, by topology.
    pub one: Vec<One>,
    /// Figure 3.10, by topology and set of participants.
    pub partial: Vec<Partial>,
    /// Figure 3.11, by topology.
    pub dynamic: Vec<Dynamic>,
    /// Figure 3.12, by topology.
    pub grain: Vec<Grain>,
}

impl Results {
    /// Figure 3.9 in `reading`.
    pub fn fair_of(&self, reading: Reading) -> &[Fair] {
        match reading {
            Reading::Divided => &self.fair,
            Reading::Literal => &self.literal,
        }
    }
}

/// The congestion parameters that are tried besides, to show their effect on gains.
const CONGESTIONS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];

/// Twenty synthetic topologies of 11 to 60 routers, with 1.1 to 2 links for each router.
pub fn made_up() -> Vec<Topology> {
    let shape = |n: usize| (11 + (n * 13) % 50, 1.1 + 0.1 * (n % 10) as f64);
    (0..20)
        .map(|n| (shape(n), n as u64 + 1))
        .map(|((routers, links), seed)| plane(routers, links, &mut Draw::new(seed)))
        .collect()
}

/// Runs the study. Figures 3.9 to 3.12 are of the topologies in [`claims::CLOSE`], or of the
/// smallest two if those are not there. The results do not say when and where they came to be.
///
/// # Errors
/// If the solver fails.
pub fn run(
    setup: &Setup<'_>,
    synthetic: bool,
    progress: Progress<'_>,
) -> Result<Results, SolveError> {
    let small: Vec<&Topology> =
        setup.topologies.iter().filter(|t| t.routers().len() <= LARGE).collect();
    let close = close(setup.topologies);
    let each = |t: &&Topology| gain::run(setup, t, progress);
    let gains = setup.topologies.iter().collect::<Vec<_>>();
    let gains = gains.iter().map(each).collect::<Result<Vec<_>, _>>()?;
    let mut congestions = Vec::new();
    for congestion in CONGESTIONS {
        let other = Setup { congestion, seeds: 1, ..*setup };
        let gains = small.iter().map(|t| gain::run(&other, t, progress));
        let gains = gains
            .map(|g| g.map(|g| stats::median(&g.unison)))
            .collect::<Result<Vec<f64>, SolveError>>()?;
        congestions.push((congestion, stats::highest(&gains), stats::median(&gains)));
    }
    let (mut fair, mut literal, mut partial) = (Vec::new(), Vec::new(), Vec::new());
    let (mut dynamic, mut grain) = (Vec::new(), Vec::new());
    for topology in close {
        fair.extend(participation::fair(setup, topology, Reading::Divided, progress)?);
        literal.extend(participation::fair(setup, topology, Reading::Literal, progress)?);
        partial.extend(participation::partial(setup, topology, progress)?);
        dynamic.push(dynamic::run(setup, topology, progress)?);
        grain.push(grain::run(setup, topology, progress)?);
    }
    let one = small.iter().map(|t| participation::one(setup, t, progress));
    let one = one.collect::<Result<Vec<_>, _>>()?;
    let Setup { seeds, congestion, routers, .. } = *setup;
    let mut results = Results {
        seeds,
        congestion,
        synthetic,
        routers,
        gains,
        congestions,
        fair,
        literal,
        one,
        partial,
        dynamic,
        grain,
        ..Results::default()
    };
    let bands = claims(&results).into_iter().map(|claim| (claim.what.clone(), claim.bands()));
    results.bands = bands.collect();
    Ok(results)
}

/// The topologies that are examined closely.
fn close(topologies: &[Topology]) -> Vec<&Topology> {
    let named = topologies.iter().filter(|t| claims::CLOSE.contains(&t.name()));
    let named: Vec<&Topology> = named.collect();
    if !named.is_empty() {
        return named;
    }
    let mut by_size: Vec<&Topology> = topologies.iter().collect();
    by_size.sort_by_key(|t| t.routers().len());
    by_size.truncate(2);
    by_size
}
