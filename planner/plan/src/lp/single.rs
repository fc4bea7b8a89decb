//! The exact program for flows with a single path: a mixed-integer one, for small networks.

use crate::lp::SolveError;
use crate::lp::highs::{Highs, Model};
use crate::lp::shape::limiting;
use crate::problem::Problem;

/// The most choices for the exact search, about those of a network of 25 routers. Beyond, the
/// search would take minutes, and rounding comes within one per cent of the bound.
const MAX_CHOICES: usize = 4000;
/// The relative gap to the optimum at which the search ends.
const GAP: f64 = 0.005;
/// The most nodes of the search. The limit is not in seconds, so that the answer is the same on
/// every machine.
const NODES: u32 = 20_000;

/// Returns the rates with the highest sum where each flow has a single path: a rate for each
/// choice, in units.
///
/// They are within half a per cent of the optimum, or the best found within the search's limit.
///
/// # Errors
/// If the network is too large for the search, or the solver fails.
pub fn exact(problem: &Problem) -> Result<Vec<f64>, SolveError> {
    let choices = problem.choices.len();
    if choices > MAX_CHOICES {
        return Err(SolveError::TooLarge);
    }
    let (rows, limits) = limiting(problem);
    let flows = problem.flows.len();
    // The rows: what a flow gets, that it uses one choice, that an unused choice carries nothing,
    // and what resources carry.
    let (one, untaken, limit) = (flows, 2 * flows, 2 * flows + choices);
    let mut model = Model {
        costs: [vec![1.0; choices], vec![0.0; choices]].concat(),
        columns: [vec![(0.0, f64::INFINITY); choices], vec![(0.0, 1.0); choices]].concat(),
        rows: problem.flows.iter().map(|f| (f.floor.min(f.demand), f.demand)).collect(),
        ..Model::default()
    };
    model.rows.extend(vec![(0.0, 1.0); flows]);
    model.rows.extend(vec![(f64::NEG_INFINITY, 0.0); choices]);
    model.rows.extend(limits.iter().map(|c| (f64::NEG_INFINITY, *c)));
    let enter = |model: &mut Model, entries: &[(usize, f64)]| {
        model.start.push(model.index.len() as i32);
        model.index.extend(entries.iter().map(|e| e.0 as i32));
        model.value.extend(entries.iter().map(|e| e.1));
    };
    for (at, flow) in problem.flows.iter().enumerate() {
        for choice in flow.choices() {
            let used =
                problem.uses(&problem.choices[choice]).iter().filter_map(|r| rows[*r as usize]);
            let mut entries = vec![(at, 1.0), (untaken + choice, 1.0)];
            entries.extend(used.map(|row| (limit + row, 1.0)));
            enter(&mut model, &entries);
        }
    }
    for (at, flow) in problem.flows.iter().enumerate() {
        for choice in flow.choices() {
            enter(&mut model, &[(one + at, 1.0), (untaken + choice, -flow.demand)]);
        }
    }
    let mut highs = Highs::new(&model)?;
    let whole: Vec<bool> = (0..2 * choices).map(|column| column >= choices).collect();
    highs.whole(&whole, GAP, NODES)?;
    let mut shares = highs.run()?.columns;
    shares.truncate(choices);
    Ok(shares)
}
