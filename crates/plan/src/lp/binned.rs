//! The program of geometric binning: the rate of a flow, cut into bins that are worth less and less.

use crate::lp::SolveError;
use crate::lp::highs::{Highs, Model, Stand};
use crate::lp::packing::{Bound, limiting, unlimited, worth as worth_of};
use crate::problem::Problem;

/// A rate for each choice, that together maximise the worth of all filled bins, where `bins` has at least and at most how much of each bin
/// of each flow is filled, and a bin is worth `worth` times the one below.
pub(crate) fn binned(
    problem: &Problem,
    bins: &[Vec<Bound>],
    worth: f64,
) -> Result<Vec<f64>, SolveError> {
    // What a unit is worth for its way alone: nothing, less what it is off the present routing and on longer paths. Of
    // the least bin that must still be little.
    let least = worth.powi(bins.iter().map(Vec::len).max().unwrap_or(0) as i32);
    let ways: Vec<f64> = worth_of(problem).iter().map(|w| (w - 1.0) * least).collect();
    let (rows, limits) = limiting(problem);
    let flows = problem.flows.len();
    let mut model = Model::default();
    let start = |model: &mut Model| {
        let at = i32::try_from(model.index.len()).map_err(|_| SolveError::TooLarge)?;
        model.start.push(at);
        Ok(())
    };
    for (at, flow) in problem.flows.iter().enumerate() {
        for choice in &problem.choices[flow.choices()] {
            start(&mut model)?;
            model.costs.push(ways[model.columns.len()]);
            model.columns.push((0.0, f64::INFINITY));
            model.index.push(at as i32);
            let used = problem.uses(choice).iter().filter_map(|r| rows[*r as usize]);
            model.index.extend(used.map(|row| (flows + row) as i32));
        }
        model.value.resize(model.index.len(), 1.0);
    }
    // A flow's row says that its bins hold what its choices carry.
    for (at, bins) in bins.iter().enumerate() {
        let mut cost = 1.0;
        for bound in bins {
            start(&mut model)?;
            model.costs.push(cost);
            model.columns.push(*bound);
            model.index.push(at as i32);
            model.value.push(-1.0);
            cost *= worth;
        }
    }
    model.rows = vec![(0.0, 0.0); flows];
    model.rows.extend(limits.iter().map(|c| (f64::NEG_INFINITY, *c)));
    let mut highs = Highs::new(&model)?;
    let (mut columns, mut stands) = unlimited(problem, &ways, model.rows.len());
    // All bins are full, where there is a way at all.
    let full = problem.flows.iter().zip(bins).flat_map(|(flow, bins)| {
        let stand = if flow.choices().is_empty() { Stand::Lower } else { Stand::Upper };
        bins.iter().map(move |_| stand)
    });
    columns.extend(full);
    for (stand, flow) in stands.iter_mut().zip(&problem.flows) {
        if !flow.choices().is_empty() {
            *stand = Stand::Lower;
        }
    }
    highs.begin(&columns, &stands)?;
    let mut shares = highs.run()?.columns;
    shares.truncate(problem.choices.len());
    Ok(shares)
}
