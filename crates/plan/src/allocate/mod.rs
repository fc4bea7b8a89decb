//! Who gets how much, and over which ways.

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

/// How the capacity is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// As much as possible, whoever gets it: the multi-commodity flow (3.1).
    Most,
    /// Weighted fairness in steps: Algorithm 1.
    Wba(Wba),
    /// Weighted fairness in one program.
    Binning(Binning),
}

/// What each flow gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// A rate for each choice, in units.
    pub shares: Vec<f64>,
    /// A rate for each flow, in units: the sum of its choices'.
    pub rates: Vec<f64>,
}

impl Allocation {
    fn new(problem: &Problem, mut shares: Vec<f64>) -> Self {
        // The solver leaves a hair below zero, which is none of anything.
        for share in &mut shares {
            *share = share.max(0.0);
        }
        Self { rates: problem.rates(&shares), shares }
    }

    /// All that is carried, in units.
    pub fn total(&self) -> f64 {
        self.rates.iter().sum()
    }
}

impl Method {
    /// Divides the capacity between the flows of `problem`. The same problem has the same answer: of several equally
    /// good ways that a flow could take, it takes the present one, or else the shortest.
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
