//! The multi-commodity flow (3.1): the most traffic, without regard to fairness.

use crate::lp::{Packing, SolveError};
use crate::problem::Problem;

/// Returns a rate for each choice, in units, with the highest possible sum.
///
/// # Errors
/// If the flows' floors cannot all be met, or the solver fails.
pub fn most(problem: &Problem, packing: &mut Packing<'_>) -> Result<Vec<f64>, SolveError> {
    let bounds: Vec<_> = problem.flows.iter().map(|f| (f.floor.min(f.demand), f.demand)).collect();
    packing.most(&bounds)
}
