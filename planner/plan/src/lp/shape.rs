//! What all programs of a problem share: the worth of choices, the resources that may limit them,
//! and a basis to start from.

use crate::lp::highs::BasisStatus;
use crate::problem::Problem;

/// The reduction in worth for a choice that is not in the present routing. It is so small that no
/// traffic is given up for it, since vertices of these programs differ by more, and above the
/// solver's tolerance.
const CHANGE: f64 = 2e-6;
/// The reduction in worth for the longest path, compared with one of length zero.
const LENGTH: f64 = 1e-6;

/// Returns the worth of a unit on each choice: nearly one, and a little less for changes and longer
/// paths.
///
/// So of all allocations that carry the same, the optimum is the nearest to the present routing,
/// and of those the shortest. This makes the answer unique and independent of the first basis.
/// Otherwise the vertex that a step of WBA ends in would decide which flows are frozen.
pub(super) fn worth(problem: &Problem) -> Vec<f64> {
    let longest = problem.choices.iter().map(|c| c.length).max().unwrap_or(0) as f64;
    let worth = problem.choices.iter().map(|c| {
        let change = if c.present { 0.0 } else { CHANGE };
        1.0 - change - LENGTH * c.length as f64 / (longest + 1.0)
    });
    worth.collect()
}

/// Returns the basis in which every flow has all that it may have on its best choice, whatever
/// links carry. It is dual feasible, which is what the dual method needs to start.
pub(super) fn unlimited(
    problem: &Problem,
    worth: &[f64],
    rows: usize,
) -> (Vec<BasisStatus>, Vec<BasisStatus>) {
    let mut columns = vec![BasisStatus::Lower; problem.choices.len()];
    let mut row_status = vec![BasisStatus::Basic; rows];
    for (at, flow) in problem.flows.iter().enumerate() {
        // The first choice of equally good ones.
        if let Some(best) = flow.choices().rev().max_by(|a, b| worth[*a].total_cmp(&worth[*b])) {
            columns[best] = BasisStatus::Basic;
            row_status[at] = BasisStatus::Upper;
        }
    }
    (columns, row_status)
}

/// Returns the row of each resource that may be overloaded, and the limits of the rows. A resource
/// that can carry all that may use it needs no row.
pub(super) fn limiting(problem: &Problem) -> (Vec<Option<usize>>, Vec<f64>) {
    let mut most = vec![0.0; problem.resources.len()];
    let mut last = vec![usize::MAX; problem.resources.len()];
    for (at, flow) in problem.flows.iter().enumerate() {
        for choice in &problem.choices[flow.choices()] {
            for &resource in problem.uses(choice) {
                if std::mem::replace(&mut last[resource as usize], at) != at {
                    most[resource as usize] += flow.demand;
                }
            }
        }
    }
    let mut limits = Vec::new();
    let rows = problem.resources.iter().zip(most).map(|(resource, most)| {
        (most > resource.capacity).then(|| {
            limits.push(resource.capacity);
            limits.len() - 1
        })
    });
    (rows.collect(), limits)
}
