//! One way for each flow (aggregate flows are not split, section 3.5.1), from an allocation that splits them.
//!
//! Flows choose in the order of what they got, the largest first: the way on which most of that still fits, and of
//! those the one that carried most of it. Then all choose again, a few times, each with its own traffic taken away,
//! until none moves. What they get in the end is allocated anew, with one way each.

use crate::lp::SLACK;
use crate::problem::Problem;

use super::Allocation;

/// How often all choose again: gains after the second time are small, and the bound makes sure that it ends.
const ROUNDS: u32 = 4;

/// The number of each flow's way; `None` for flows that have none.
pub fn single_ways(problem: &Problem, split: &Allocation) -> Vec<Option<usize>> {
    let mut left: Vec<f64> = problem.resources.iter().map(|r| r.capacity).collect();
    let mut order: Vec<usize> = (0..problem.flows.len()).collect();
    // Stable: of equal flows the first comes first.
    order.sort_by(|a, b| split.rates[*b].total_cmp(&split.rates[*a]));
    let mut ways = vec![None; problem.flows.len()];
    let mut carried = vec![0.0; problem.flows.len()];
    for _ in 0..ROUNDS {
        let mut moved = false;
        for &at in &order {
            let before: Option<usize> = ways[at];
            take(problem, before, -carried[at], &mut left);
            // What the split allocation left of a flow may still fit when it takes one way.
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

/// How much of `wanted` fits on a choice.
fn fit(problem: &Problem, choice: usize, wanted: f64, left: &[f64]) -> f64 {
    let uses = problem.uses(&problem.choices[choice]);
    uses.iter().map(|r| left[*r as usize]).fold(wanted, f64::min).max(0.0)
}

fn take(problem: &Problem, choice: Option<usize>, rate: f64, left: &mut [f64]) {
    for resource in choice.iter().flat_map(|c| problem.uses(&problem.choices[*c])) {
        left[*resource as usize] -= rate;
    }
}
