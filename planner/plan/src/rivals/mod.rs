//! Published methods of others that divide capacity fairly, to be compared with
//! [`allocate`](crate::allocate). They are written after what is known of them, and
//! the authors' own code may do better.
//!
//! All of them ignore floors, since none of the papers has any, and use the same solver.

mod waterfill;

use crate::allocate::{Allocation, Method, Wba};
use crate::lp::{SolveError, binned, most_within, raised};
use crate::problem::Problem;
use crate::synthetic::Draw;

pub use waterfill::{ITERATIONS, adaptive};

/// A published method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// SWAN's approximate max-min fairness (C.-Y. Hong et al., SIGCOMM 2013): one
    /// whole program for each step, with the steps of [`Wba`].
    Swan,
    /// Geometric binning (P. Namyar et al., NSDI 2024): SWAN's steps in one program.
    Geometric,
    /// The adaptive water-filler of the same paper, which needs no solver.
    Waterfiller,
    /// The equi-depth binner of the same paper: one program like geometric binning, with bins that
    /// the water-filler's rates fill equally.
    EquiDepth,
    /// POP (D. Narayanan et al., SOSP 2021): the flows in [`PARTS`] random parts, each
    /// with its part of every capacity, solved by SWAN's method.
    Pop,
    /// The plain max-min program: the highest multiple of their weights that all flows can get,
    /// and then the highest sum.
    MaxMin,
}

/// The parts of POP.
pub const PARTS: usize = 4;
/// The bins of the equi-depth binner, as many as WBA has steps.
const BINS: usize = 5;
/// The worth of a bin relative to the one below, as in geometric binning.
const WORTH: f64 = 0.1;

impl Rival {
    /// All published methods, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Swan, Self::Geometric, Self::Waterfiller, Self::EquiDepth, Self::Pop, Self::MaxMin];

    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Swan => "SWAN",
            Self::Geometric => "geometric",
            Self::Waterfiller => "water-filler",
            Self::EquiDepth => "equi-depth",
            Self::Pop => "POP",
            Self::MaxMin => "max-min",
        }
    }

    /// Divides the capacity between the flows of `problem`.
    ///
    /// # Errors
    /// If the solver fails.
    pub fn allocate(self, problem: &Problem) -> Result<Allocation, SolveError> {
        let shares = match self {
            Self::Swan => swan(problem)?,
            Self::Geometric => {
                let binning = crate::allocate::Binning::default();
                return Method::Binning(binning).allocate(problem);
            }
            Self::Waterfiller => adaptive(problem),
            Self::EquiDepth => equi_depth(problem)?,
            Self::Pop => pop(problem)?,
            Self::MaxMin => max_min(problem)?,
        };
        Ok(Allocation::new(problem, shares))
    }
}

/// Freezes, after each step, the flows that got less than its bound.
fn swan(problem: &Problem) -> Result<Vec<f64>, SolveError> {
    /// The difference up to which a rate counts as the bound, in units.
    const NEAR: f64 = 1e-6;
    let wba = Wba::default();
    let first = wba.first_bound(problem);
    let mut bounds = vec![(0.0, 0.0); problem.flows.len()];
    let mut frozen = vec![false; problem.flows.len()];
    let mut shares = Vec::new();
    for step in 1..=wba.steps {
        for ((bound, frozen), flow) in bounds.iter_mut().zip(&frozen).zip(&problem.flows) {
            if !frozen {
                let reach = first * wba.factor.powi(step as i32) * flow.weight;
                let last = step == wba.steps;
                bound.1 = if last { flow.demand } else { reach.min(flow.demand) }.max(bound.0);
            }
        }
        shares = most_within(problem, &bounds)?;
        for (at, rate) in problem.rates(&shares).into_iter().enumerate() {
            // The solver may return a rate just outside its bound.
            let rate = (rate - NEAR / 10.0).clamp(bounds[at].0, bounds[at].1);
            frozen[at] |= rate < bounds[at].1 - NEAR;
            bounds[at].0 = if frozen[at] { bounds[at].0.max(rate - NEAR) } else { rate };
            if frozen[at] {
                bounds[at].1 = rate;
            }
        }
    }
    Ok(shares)
}

fn equi_depth(problem: &Problem) -> Result<Vec<f64>, SolveError> {
    let rates = problem.rates(&adaptive(problem));
    let mut levels: Vec<f64> =
        rates.iter().zip(&problem.flows).map(|(rate, flow)| rate / flow.weight).collect();
    levels.sort_by(f64::total_cmp);
    let ends: Vec<f64> =
        (1..BINS).filter_map(|bin| levels.get(bin * levels.len() / BINS).copied()).collect();
    let bins: Vec<Vec<(f64, f64)>> = problem
        .flows
        .iter()
        .map(|flow| {
            let mut low = 0.0;
            let bounds = ends.iter().map(|e| (e * flow.weight).min(flow.demand));
            bounds
                .chain([flow.demand])
                .map(|end| {
                    let width = (end - low).max(0.0);
                    low += width;
                    (0.0, width)
                })
                .collect()
        })
        .collect();
    binned(problem, &bins, WORTH)
}

fn pop(problem: &Problem) -> Result<Vec<f64>, SolveError> {
    let mut draw = Draw::new(1);
    let part_of: Vec<usize> = problem.flows.iter().map(|_| draw.below(PARTS)).collect();
    let mut shares = vec![0.0; problem.choices.len()];
    for part in 0..PARTS {
        let alone = problem.part(|flow| part_of[flow] == part, 1.0 / PARTS as f64);
        let own = swan(&alone)?;
        let flows = problem.flows.iter().zip(&part_of).filter(|(_, p)| **p == part);
        for ((flow, _), same) in flows.zip(&alone.flows) {
            shares[flow.choices()].copy_from_slice(&own[same.choices()]);
        }
    }
    Ok(shares)
}

fn max_min(problem: &Problem) -> Result<Vec<f64>, SolveError> {
    let most = problem.flows.iter().map(|f| f.demand / f.weight).fold(f64::INFINITY, f64::min);
    // The solver's tolerance is left free.
    let level = (raised(problem, most)? * (1.0 - 1e-6)).max(0.0);
    let bounds: Vec<_> = problem
        .flows
        .iter()
        .map(|flow| {
            let low = if flow.choices().is_empty() { 0.0 } else { level * flow.weight };
            (low.min(flow.demand), flow.demand)
        })
        .collect();
    most_within(problem, &bounds)
}

/// Returns Jain's fairness index of the parts of their demands that flows get: 1 if all are equal
/// (R. Jain et al., "A Quantitative Measure of Fairness", DEC TR-301, 1984).
pub fn jain(problem: &Problem, rates: &[f64]) -> f64 {
    let parts: Vec<f64> =
        problem.flows.iter().zip(rates).map(|(f, rate)| rate / f.weight).collect();
    let (sum, squares) =
        parts.iter().fold((0.0, 0.0), |(sum, squares), p| (sum + p, squares + p * p));
    if squares > 0.0 { sum * sum / (parts.len() as f64 * squares) } else { 1.0 }
}

/// Returns the mean part of their demands that the worst tenth of the flows gets.
pub fn worst_tenth(problem: &Problem, rates: &[f64]) -> f64 {
    let mut parts: Vec<f64> =
        problem.flows.iter().zip(rates).map(|(f, rate)| rate / f.demand).collect();
    parts.sort_by(f64::total_cmp);
    parts.truncate(parts.len().div_ceil(10));
    if parts.is_empty() { 1.0 } else { parts.iter().sum::<f64>() / parts.len() as f64 }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::paths::PathCache;
    use crate::problem::{Freedom, Grain};
    use crate::synthetic::{SetUp, plane};

    fn problem(seed: u64) -> Problem {
        let mut draw = Draw::new(seed);
        let set_up = SetUp { providers: 5, core: 0.3, ..SetUp::default() };
        let network = set_up.network(plane(9, 1.4, &mut draw), &mut draw);
        let mut paths = PathCache::new(NonZeroUsize::MIN.saturating_add(2));
        Problem::new(&network, &mut paths, Freedom::Joint, Grain::Summed)
    }

    #[test]
    fn every_method_stays_within_capacities_and_below_the_optimum() {
        for seed in 0..6 {
            let problem = problem(seed);
            let optimum = Method::Most.allocate(&problem).unwrap().total();
            for rival in Rival::ALL {
                let got = rival.allocate(&problem).unwrap();
                for (load, resource) in problem.load(&got.shares).iter().zip(&problem.resources) {
                    assert!(*load <= resource.capacity + 1e-5, "{rival:?}: {load} {resource:?}");
                }
                for (flow, rate) in problem.flows.iter().zip(&got.rates) {
                    assert!(*rate <= flow.demand + 1e-6, "{rival:?}");
                }
                let total = got.total();
                assert!(total <= optimum * (1.0 + 1e-6), "{rival:?}: {total} {optimum}");
                assert!(total >= optimum / 2.0, "{rival:?}: {total} {optimum}");
            }
        }
    }

    #[test]
    fn swan_and_wba_carry_the_same() {
        for seed in 0..6 {
            let problem = problem(seed);
            let ours = Method::Wba(Wba::default()).allocate(&problem).unwrap().total();
            let swan = Rival::Swan.allocate(&problem).unwrap().total();
            // Ties are broken differently, and decide which flows are frozen.
            assert!((ours - swan).abs() < 0.03 * ours, "{ours} {swan}");
        }
    }

    #[test]
    fn the_measures_of_fairness_are_right() {
        let mut problem = problem(1);
        problem.flows.truncate(2);
        let (a, b) = (problem.flows[0].demand, problem.flows[1].demand);
        assert!((jain(&problem, &[a, b]) - 1.0).abs() < 1e-12);
        // (1 + 0)² / (2 · 1)
        assert!((jain(&problem, &[a, 0.0]) - 0.5).abs() < 1e-12);
        assert!((worst_tenth(&problem, &[a, b / 4.0]) - 0.25).abs() < 1e-12);
    }
}
