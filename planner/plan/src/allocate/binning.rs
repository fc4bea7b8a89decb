//! Weighted fairness in one program by geometric binning (P. Namyar et al., "Solving Max-Min Fair
//! Resource Allocations Quickly on Large Graphs", NSDI 2024, section 3).
//!
//! The rate of a flow is cut into bins whose ends are the bounds of WBA's steps. A lower bin is
//! worth more than a higher one, to every flow.

use crate::lp::{SolveError, binned};
use crate::problem::Problem;

use super::Wba;

/// The parameters of the bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binning {
    /// The steps whose bounds are the ends of the bins.
    pub bounds: Wba,
    /// The worth of a bin relative to the one below, between 0 and 1. A flow gets into its next bin
    /// if the flows that it displaces lose less than `1 / worth` times as much from a lower bin.
    pub worth: f64,
}

impl Default for Binning {
    /// With five bins, the last is worth 10^-4, well above the solver's tolerance of 10^-7.
    fn default() -> Self {
        Self { bounds: Wba::default(), worth: 0.1 }
    }
}

impl Binning {
    /// Returns a rate for each choice, in units.
    ///
    /// # Errors
    /// If the flows' floors cannot all be met, or the solver fails.
    pub fn shares(&self, problem: &Problem) -> Result<Vec<f64>, SolveError> {
        let steps = self.bounds.steps.clamp(1, Wba::MAX_STEPS);
        let first = self.bounds.first_bound(problem);
        let bins = problem.flows.iter().map(|flow| {
            let mut low = 0.0;
            let ends = (1..=steps).map(|step| {
                let end = if step == steps {
                    flow.demand
                } else {
                    first * self.bounds.factor.powi(step as i32) * flow.weight
                };
                end.min(flow.demand)
            });
            let bins = ends.map(|end| {
                let width = (end - low).max(0.0);
                // Floors fill the lowest bins.
                let floor = (flow.floor.min(flow.demand) - low).clamp(0.0, width);
                low = low.max(end);
                (floor, width)
            });
            bins.collect()
        });
        binned(problem, &bins.collect::<Vec<Vec<_>>>(), self.worth)
    }
}
