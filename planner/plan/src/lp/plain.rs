//! The programs as textbooks have them: every flow, choice and limited resource at once, solved
//! with the solver's own defaults. Methods of others are compared on these.

use crate::lp::SolveError;
use crate::lp::highs::{Highs, Model};
use crate::lp::packing::Bound;
use crate::lp::shape::limiting;
use crate::problem::Problem;

/// Returns the rates with the highest sum, each flow within its bound: a rate for each choice.
pub(crate) fn most_within(problem: &Problem, bounds: &[Bound]) -> Result<Vec<f64>, SolveError> {
    let mut model = whole(problem, bounds, 1.0)?;
    model.value = vec![1.0; model.index.len()];
    Ok(Highs::load(&model)?.run()?.columns)
}

/// Returns the highest multiple of their weights that all flows can get at once, at most `most`.
pub(crate) fn raised(problem: &Problem, most: f64) -> Result<f64, SolveError> {
    let bounds: Vec<Bound> =
        problem
            .flows
            .iter()
            .map(|f| {
                if f.choices().is_empty() { (f64::NEG_INFINITY, 0.0) } else { (0.0, f64::INFINITY) }
            })
            .collect();
    let mut model = whole(problem, &bounds, 0.0)?;
    model.value = vec![1.0; model.index.len()];
    // The last column is the multiple: a flow's row is its rate minus the multiple of its weight.
    model.start.push(i32::try_from(model.index.len()).map_err(|_| SolveError::TooLarge)?);
    model.costs.push(1.0);
    model.columns.push((0.0, most));
    for (flow, row) in problem.flows.iter().zip(0..) {
        if !flow.choices().is_empty() {
            model.index.push(row);
            model.value.push(-flow.weight);
        }
    }
    let values = Highs::load(&model)?.run()?.columns;
    Ok(values.last().copied().unwrap_or(0.0))
}

/// Returns the matrix of all choices, whose units are worth `cost` each.
fn whole(problem: &Problem, bounds: &[Bound], cost: f64) -> Result<Model, SolveError> {
    let (rows, limits) = limiting(problem);
    let mut model = Model {
        costs: vec![cost; problem.choices.len()],
        columns: vec![(0.0, f64::INFINITY); problem.choices.len()],
        rows: bounds.to_vec(),
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
    Ok(model)
}
