//! Unison's evaluation (section 3.5), tried again: its figures on its set-up, and whether ours are within bands that
//! were written down before anything was run ([`claims`]).

mod claims;
mod dynamic;
mod gain;
mod grain;
mod page;
mod participation;
mod pictures;
mod setting;
mod stats;

use std::num::NonZeroUsize;

use serde::Serialize;

pub use claims::{Claim, claims};
pub use dynamic::{Dynamic, Window};
pub use gain::Gain;
pub use grain::{Cut, Grain};
pub use page::page;
pub use participation::{Fair, One, Partial};
pub use pictures::pictures;

use participation::Reading;

use forebay_plan::lp::SolveError;
use forebay_plan::synthetic::{Draw, plane};
use forebay_plan::topology::Topology;

/// Paths of each entry and boundary router.
const PATHS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);
/// Topologies with more routers are left out of what is run twenty times for each seed.
const LARGE: usize = 80;

/// The title of the page.
pub const TITLE: &str = "Unison's evaluation, tried again";

/// Told what is being run.
pub type Progress<'a> = &'a dyn Fn(&str);

/// What a study is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The ISPs; the providers' networks are drawn from the same.
    pub topologies: &'a [Topology],
    /// Seeds from 1 to this.
    pub seeds: u64,
    /// The same of figure 3.9, whose indices vary so much with the set-up that medians of few say little.
    pub fair_seeds: u64,
    /// The congestion parameter: what links carry of what the most loaded one would have to.
    pub congestion: f64,
    /// Topologies with more routers were left out, if there was such a limit.
    pub routers: Option<usize>,
}

impl Setup<'_> {
    /// The congestion parameter where nothing is said.
    pub const CONGESTION: f64 = setting::CONGESTION;
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// Seeds from 1 to this.
    pub seeds: u64,
    /// The same of figure 3.9.
    pub fair_seeds: u64,
    /// The congestion parameter.
    pub congestion: f64,
    /// Whether the topologies were made up.
    pub synthetic: bool,
    /// Topologies with more routers were left out, if there was such a limit.
    pub routers: Option<usize>,
    /// Figures 3.7 and 3.8, by topology.
    pub gains: Vec<Gain>,
    /// The same gains' medians with other congestion parameters: parameter, gain of the topology that gains most, and the
    /// median over topologies.
    pub congestions: Vec<(f64, f64, f64)>,
    /// Figure 3.9.
    pub fair: Vec<Fair>,
    /// Figure 3.9 with the text's set-up to the letter.
    pub literal: Vec<Fair>,
    /// One neighbour alone, by topology.
    pub one: Vec<One>,
    /// Figure 3.10.
    pub partial: Vec<Partial>,
    /// Figure 3.11.
    pub dynamic: Vec<Dynamic>,
    /// Figure 3.12.
    pub grain: Vec<Grain>,
}

/// The congestion parameters that are tried beside, for what it does to gains.
const CONGESTIONS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];

/// Made-up topologies for those who have no others: twenty, of 11 to 60 routers and with 1.1 to 2 links for each.
pub fn made_up() -> Vec<Topology> {
    let shape = |n: usize| (11 + (n * 13) % 50, 1.1 + 0.1 * (n % 10) as f64);
    (0..20)
        .map(|n| (shape(n), n as u64 + 1))
        .map(|((routers, links), seed)| plane(routers, links, &mut Draw::new(seed)))
        .collect()
}

/// Runs all of it; of the topologies in [`claims::CLOSE`], or the smallest two if those are not there, what the text
/// looks at closely.
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
        fair.extend(participation::fair(setup, topology, Reading::Usual, progress)?);
        literal.extend(participation::fair(setup, topology, Reading::Literal, progress)?);
        partial.extend(participation::partial(setup, topology, progress)?);
        dynamic.push(dynamic::run(setup, topology, progress)?);
        grain.push(grain::run(setup, topology, progress)?);
    }
    let one = small.iter().map(|t| participation::one(setup, t, progress));
    let one = one.collect::<Result<Vec<_>, _>>()?;
    let Setup { seeds, fair_seeds, congestion, routers, .. } = *setup;
    Ok(Results {
        seeds,
        fair_seeds,
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
    })
}

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
