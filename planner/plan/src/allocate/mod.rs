//! Divides the capacity of a network between flows.

mod binning;
mod mcf;
mod rounding;
mod wba;

pub use binning::Binning;
pub use mcf::most;
pub use rounding::single_ways;
pub use wba::Wba;

use crate::lp::{Packing, SolveError};
use crate::problem::Problem;

/// The method that divides capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// The highest sum of rates, without fairness: the multi-commodity flow (3.1).
    Most,
    /// Weighted fairness in steps: Algorithm 1.
    Wba(Wba),
    /// Weighted fairness in one program.
    Binning(Binning),
}

/// The rates that a method gives to flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// The rate of each choice, in units of the problem.
    pub shares: Vec<f64>,
    /// The rate of each flow, in units: the sum over its choices.
    pub rates: Vec<f64>,
}

impl Allocation {
    pub(crate) fn new(problem: &Problem, mut shares: Vec<f64>) -> Self {
        // The solver may return values just below zero.
        for share in &mut shares {
            *share = share.max(0.0);
        }
        Self { rates: problem.rates(&shares), shares }
    }

    /// Returns the sum of all rates, in units.
    pub fn total(&self) -> f64 {
        self.rates.iter().sum()
    }
}

impl Method {
    /// Divides the capacity between the flows of `problem`.
    ///
    /// The same problem gets the same answer. Of several equally good choices a flow uses the
    /// present one, or else the shortest.
    ///
    /// # Errors
    /// If the flows' floors cannot all be met, or the solver fails.
    pub fn allocate(&self, problem: &Problem) -> Result<Allocation, SolveError> {
        let shares = match self {
            Self::Most => most(problem, &mut Packing::new(problem)?)?,
            Self::Wba(wba) => wba.shares(problem, &mut Packing::new(problem)?)?,
            Self::Binning(binning) => binning.shares(problem)?,
        };
        Ok(Allocation::new(problem, shares))
    }
}
