//! Fairness between providers: satisfaction and the weighted fairness index (section 3.4.2).

use crate::lp::{Packing, SolveError};
use crate::problem::Problem;

/// Returns the most that each provider could get without the others, in units of the problem.
///
/// # Errors
/// If the solver fails.
pub fn alone(problem: &Problem) -> Result<Vec<f64>, SolveError> {
    let mut packing = Packing::new(problem)?;
    let providers = 0..problem.providers as u32;
    let most = providers.map(|provider| {
        let bounds = problem
            .flows
            .iter()
            .map(|f| (0.0, if f.provider == provider { f.demand } else { 0.0 }));
        Ok(packing.most(&bounds.collect::<Vec<_>>())?.iter().sum())
    });
    most.collect()
}

/// Returns what each provider gets by the `rates` of the flows, in units of the problem.
pub fn by_provider(problem: &Problem, rates: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; problem.providers];
    for (flow, rate) in problem.flows.iter().zip(rates) {
        sums[flow.provider as usize] += rate;
    }
    sums
}

/// Returns the satisfaction of each provider: the part, from 0 to 1, of what it could get `alone`
/// that it `got`. A provider that could get nothing alone is satisfied.
pub fn satisfaction(got: &[f64], alone: &[f64]) -> Vec<f64> {
    let share =
        |(got, alone): (&f64, &f64)| if *alone > 0.0 { (got / alone).clamp(0.0, 1.0) } else { 1.0 };
    got.iter().zip(alone).map(share).collect()
}

/// Returns the weights of the providers: the sums of their flows' weights (`w_i`).
pub fn weights(problem: &Problem) -> Vec<f64> {
    let weights: Vec<f64> = problem.flows.iter().map(|f| f.weight).collect();
    by_provider(problem, &weights)
}

/// Returns the weighted fairness index: the weighted standard deviation of `satisfaction`, 0 if
/// fair.
pub fn index(satisfaction: &[f64], weights: &[f64]) -> f64 {
    let all: f64 = weights.iter().sum();
    if all <= 0.0 {
        return 0.0;
    }
    let pairs = || satisfaction.iter().zip(weights);
    let mean = pairs().map(|(s, w)| s * w).sum::<f64>() / all;
    (pairs().map(|(s, w)| w * (s - mean) * (s - mean)).sum::<f64>() / all).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_a_weighted_deviation() {
        assert_eq!(index(&[0.5, 0.5, 0.5], &[1.0, 2.0, 3.0]), 0.0);
        // Mean 0.75, a quarter away with weight 3 and three quarters with weight 1.
        let expected = ((3.0 * 0.0625 + 0.5625) / 4.0_f64).sqrt();
        assert!((index(&[1.0, 0.0], &[3.0, 1.0]) - expected).abs() < 1e-12);
        assert_eq!(index(&[], &[]), 0.0);
    }

    #[test]
    fn satisfaction_is_relative_to_the_rate_without_others() {
        assert_eq!(satisfaction(&[1.0, 2.0, 0.0], &[2.0, 2.0, 0.0]), [0.5, 1.0, 1.0]);
    }
}
