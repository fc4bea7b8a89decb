//! The packing program (3.1): as much as fits, with bounds for each flow that change from step to step.

use crate::lp::SolveError;
use crate::lp::highs::{Highs, Model, Stand};
use crate::problem::Problem;

/// What a flow may get: at least, and at most, in units.
pub type Bound = (f64, f64);

/// How much less a way is worth that is not part of the present routing: so little that no traffic is given up for it
/// (a vertex of these programs that carries less carries less by more than that), and more than the solver's tolerance.
const CHANGE: f64 = 2e-6;
/// How much less the longest path is worth than one of no length.
const LENGTH: f64 = 1e-6;

/// What a unit on each choice is worth: nearly one, and a little less off the present routing and on longer paths.
///
/// So of all allocations that carry the same, the best is the nearest to the present routing, and of those the
/// shortest. That makes the answer one, for which it does not matter from which basis it was found; without it,
/// which of many optimal vertices a step of WBA ends in decides who is frozen.
pub(super) fn worth(problem: &Problem) -> Vec<f64> {
    let longest = problem.choices.iter().map(|c| c.length).max().unwrap_or(0) as f64;
    let worth = problem.choices.iter().map(|c| {
        let change = if c.present { 0.0 } else { CHANGE };
        1.0 - change - LENGTH * c.length as f64 / (longest + 1.0)
    });
    worth.collect()
}

/// The basis in which every flow has all that it may have on the way that is worth most to it, whether links carry that
/// or not. It is optimal but for the links, which is where the dual method starts from.
pub(super) fn unlimited(problem: &Problem, worth: &[f64], rows: usize) -> (Vec<Stand>, Vec<Stand>) {
    let mut columns = vec![Stand::Lower; problem.choices.len()];
    let mut stands = vec![Stand::Basic; rows];
    for (at, flow) in problem.flows.iter().enumerate() {
        // The first of equals.
        if let Some(best) = flow.choices().rev().max_by(|a, b| worth[*a].total_cmp(&worth[*b])) {
            columns[best] = Stand::Basic;
            stands[at] = Stand::Upper;
        }
    }
    (columns, stands)
}

/// One model of a problem. Columns are choices; rows are flows, and what could be overloaded.
#[derive(Debug)]
pub struct Packing<'a> {
    problem: &'a Problem,
    highs: Highs,
}

impl<'a> Packing<'a> {
    /// # Errors
    /// If the problem is too large for the solver.
    pub fn new(problem: &'a Problem) -> Result<Self, SolveError> {
        let (rows, limits) = limiting(problem);
        let mut model = Model {
            costs: worth(problem),
            columns: vec![(0.0, f64::INFINITY); problem.choices.len()],
            rows: problem.flows.iter().map(|f| (0.0, f.demand)).collect(),
            ..Model::default()
        };
        model.rows.extend(limits.iter().map(|c| (f64::NEG_INFINITY, *c)));
        for (at, flow) in problem.flows.iter().enumerate() {
            for choice in &problem.choices[flow.choices()] {
                let start = i32::try_from(model.index.len()).map_err(|_| SolveError::TooLarge)?;
                model.start.push(start);
                model.index.push(at as i32);
                let used = problem.uses(choice).iter().filter_map(|r| rows[*r as usize]);
                model.index.extend(used.map(|row| (problem.flows.len() + row) as i32));
            }
        }
        model.value = vec![1.0; model.index.len()];
        let mut highs = Highs::new(&model)?;
        let (columns, rows) = unlimited(problem, &model.costs, model.rows.len());
        highs.begin(&columns, &rows)?;
        Ok(Self { problem, highs })
    }

    /// The most that fits in all, each flow within its bound: a rate for each choice. Of several such allocations it is
    /// the one that is nearest to the present routing, and of those the shortest.
    ///
    /// It goes on from the last answer's basis.
    ///
    /// # Errors
    /// If no allocation is within all bounds, or the solver fails.
    pub fn most(&mut self, bounds: &[Bound]) -> Result<Vec<f64>, SolveError> {
        assert_eq!(bounds.len(), self.problem.flows.len());
        self.highs.bound_rows(0, bounds)?;
        Ok(self.highs.run()?.columns)
    }
}

/// A row's number for each resource that could be overloaded, and the rows' limits. What could carry all that may
/// come its way needs no row.
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
