//! The packing program (3.1): the highest sum of rates, with bounds for each flow that change from
//! step to step.

use crate::lp::SolveError;
use crate::lp::highs::{BasisStatus, Highs, Model};
use crate::problem::Problem;

/// The least and the most that a flow may get, in units.
pub type Bound = (f64, f64);

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

/// The model of one problem. Columns are choices; rows are flows and the resources that may be
/// overloaded.
#[derive(Debug)]
pub struct Packing<'a> {
    problem: &'a Problem,
    highs: Highs,
}

impl<'a> Packing<'a> {
    /// Builds the model.
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

    /// Returns the rates with the highest sum, each flow within its bound: a rate for each choice.
    ///
    /// Of several such allocations it is the one nearest to the present routing, and of those the
    /// shortest. The solver continues from the basis of the last answer.
    ///
    /// # Errors
    /// If no allocation is within all bounds, or the solver fails.
    pub fn most(&mut self, bounds: &[Bound]) -> Result<Vec<f64>, SolveError> {
        assert_eq!(bounds.len(), self.problem.flows.len());
        self.highs.bound_rows(0, bounds)?;
        Ok(self.highs.run()?.columns)
    }
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
