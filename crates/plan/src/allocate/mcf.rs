//! The multi-commodity flow: as much as fits (3.1), fair or not.

use crate::lp::{Packing, SolveError};
use crate::problem::Problem;

/// A rate for each choice, in units, whose sum is the most.
///
/// # Errors
/// If the flows' floors cannot all be met, or the solver fails.
pub fn most(problem: &Problem, packing: &mut Packing<'_>) -> Result<Vec<f64>, SolveError> {
    let bounds: Vec<_> = problem.flows.iter().map(|f| (f.floor.min(f.demand), f.demand)).collect();
    packing.most(&bounds)
}
