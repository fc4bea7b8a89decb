//! Rounds an allocation to one choice for each flow, since aggregate flows are not split (section
//! 3.5.1).
//!
//! Flows choose in the order of their rates, the largest first. Each takes the choice on which most
//! of its rate still fits, and of several such choices the one that carried most of it. Then all
//! choose again, a few times, each without its own traffic, until none changes. The caller
//! allocates again with the result.

use crate::lp::SLACK;
use crate::problem::Problem;

use super::Allocation;

/// The most times that all flows choose again. Gains after the second time are small, and the bound
/// makes sure that it ends.
const ROUNDS: u32 = 4;

/// Returns the choice of each flow; `None` for flows that have none.
pub fn single_ways(problem: &Problem, split: &Allocation) -> Vec<Option<usize>> {
    let mut left: Vec<f64> = problem.resources.iter().map(|r| r.capacity).collect();
    let mut order: Vec<usize> = (0..problem.flows.len()).collect();
    // The sort is stable: the first of equal flows comes first.
    order.sort_by(|a, b| split.rates[*b].total_cmp(&split.rates[*a]));
    let mut ways = vec![None; problem.flows.len()];
    let mut carried = vec![0.0; problem.flows.len()];
    for _ in 0..ROUNDS {
        let mut moved = false;
        for &at in &order {
            let before: Option<usize> = ways[at];
            take(problem, before, -carried[at], &mut left);
            // Demand that the split allocation did not serve may fit on a single choice.
            let wanted = split.rates[at];
            let way = problem.flows[at].choices().max_by(|a, b| {
                let (fit_a, fit_b) =
                    (fit(problem, *a, wanted, &left), fit(problem, *b, wanted, &left));
                let near = (fit_a - fit_b).abs() <= SLACK;
                let fit = if near { std::cmp::Ordering::Equal } else { fit_a.total_cmp(&fit_b) };
                let (x, y) = (&problem.choices[*a], &problem.choices[*b]);
                fit.then((before == Some(*a)).cmp(&(before == Some(*b))))
                    .then(split.shares[*a].total_cmp(&split.shares[*b]))
                    .then(x.present.cmp(&y.present))
                    .then(y.length.cmp(&x.length))
                    .then(b.cmp(a))
            });
            moved |= way != before;
            carried[at] = way.map_or(0.0, |w| fit(problem, w, wanted, &left));
            take(problem, way, carried[at], &mut left);
            ways[at] = way;
        }
        if !moved {
            break;
        }
    }
    ways
}

/// Returns how much of `wanted` fits on a choice.
fn fit(problem: &Problem, choice: usize, wanted: f64, left: &[f64]) -> f64 {
    let uses = problem.uses(&problem.choices[choice]);
    uses.iter().map(|r| left[*r as usize]).fold(wanted, f64::min).max(0.0)
}

fn take(problem: &Problem, choice: Option<usize>, rate: f64, left: &mut [f64]) {
    for resource in choice.iter().flat_map(|c| problem.uses(&problem.choices[*c])) {
        left[*resource as usize] -= rate;
    }
}
