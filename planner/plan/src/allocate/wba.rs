//! Weighted bandwidth allocation: Algorithm 1 of section 3.4.3, after SWAN's approximate max-min
//! fairness (C.-Y. Hong et al., "Achieving High Utilization with Software-Driven WAN", SIGCOMM
//! 2013, section 4.3).
//!
//! Each step maximises the sum of the rates, while every flow that is not frozen stays between its
//! rate so far and the bound `a^n u w`. Then it freezes the flows that got less than the bound,
//! since a link limits them, and the flows whose demand is met. So flows that contend for a link
//! stop growing within a factor `a` of each other.
//!
//! The algorithm as printed freezes all flows in its first step, since `r <= min(d, a^n u w)` holds
//! for each by (3.3). And its first lower bound, `u w`, may be infeasible; here it is zero, or the
//! flow's floor.

use crate::lp::{Packing, SLACK, SolveError};
use crate::problem::Problem;

/// The parameters of the steps, for which the text has no figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wba {
    /// The factor `a` between the bounds of two steps, above 1. A factor nearer to 1 is fairer and
    /// takes more steps.
    pub factor: f64,
    /// The number of steps. The last bound serves all flows in full, so `u` is `a^-steps` of that
    /// bound.
    pub steps: u32,
}

impl Default for Wba {
    /// Returns SWAN's factor, and a first bound of a 32nd of each flow's demand for neutral
    /// weights.
    fn default() -> Self {
        Self { factor: 2.0, steps: 5 }
    }
}

impl Wba {
    /// The most steps. With a factor of 1.2 the first bound is then a hundred thousandth of the
    /// last.
    pub const MAX_STEPS: u32 = 64;

    /// Returns `u`: the first bound for a flow of weight 1, in units.
    ///
    /// With the weights (3.2) alone, demand over weight is the same for all flows, so a bound is
    /// the same fraction of every demand.
    pub fn first_bound(&self, problem: &Problem) -> f64 {
        let most = problem.flows.iter().map(|f| f.demand / f.weight).fold(0.0, f64::max);
        most * self.factor.powi(-(self.steps.clamp(1, Self::MAX_STEPS) as i32))
    }

    /// Returns a rate for each choice, in units.
    ///
    /// # Errors
    /// If the flows' floors cannot all be met, or the solver fails.
    pub fn shares(
        &self,
        problem: &Problem,
        packing: &mut Packing<'_>,
    ) -> Result<Vec<f64>, SolveError> {
        let steps = self.steps.clamp(1, Self::MAX_STEPS);
        let first = self.first_bound(problem);
        let floor = |at: usize| problem.flows[at].floor.min(problem.flows[at].demand);
        let mut rates: Vec<f64> = (0..problem.flows.len()).map(floor).collect();
        let mut frozen = vec![false; problem.flows.len()];
        let mut bounds = vec![(0.0, 0.0); problem.flows.len()];
        let mut shares = vec![0.0; problem.choices.len()];
        for step in 1..=steps {
            let reach =
                if step == steps { f64::INFINITY } else { first * self.factor.powi(step as i32) };
            for (at, flow) in problem.flows.iter().enumerate() {
                // The rate is at least the lower bound of the step, or the flow would be frozen.
                let high = if frozen[at] {
                    rates[at]
                } else {
                    flow.demand.min(reach * flow.weight).max(rates[at])
                };
                bounds[at] = (rates[at], high);
            }
            shares = packing.most(&bounds)?;
            for (at, rate) in problem.rates(&shares).into_iter().enumerate() {
                if frozen[at] {
                    continue;
                }
                let high = bounds[at].1;
                rates[at] = rate.clamp(bounds[at].0, high);
                frozen[at] = rate < high - SLACK || high >= problem.flows[at].demand;
            }
            if frozen.iter().all(|f| *f) {
                break;
            }
        }
        Ok(shares)
    }
}
