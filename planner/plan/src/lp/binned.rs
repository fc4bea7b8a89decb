//! The program of geometric binning: the rate of a flow is cut into bins of decreasing worth.

use crate::lp::SolveError;
use crate::lp::highs::{BasisStatus, Highs, Model};
use crate::lp::packing::Bound;
use crate::lp::shape::{limiting, unlimited, worth as worth_of};
use crate::problem::Problem;

/// Returns a rate for each choice that maximises the worth of all filled bins.
///
/// `bins` has the least and the most of each bin of each flow, and a bin is worth `worth` times the
/// one below it.
pub(crate) fn binned(
    problem: &Problem,
    bins: &[Vec<Bound>],
    worth: f64,
) -> Result<Vec<f64>, SolveError> {
    // What a unit on a choice is worth by itself: zero, minus small amounts for changes and length.
    // They must be small compared with the last bin.
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
    let (mut columns, mut row_status) = unlimited(problem, &ways, model.rows.len());
    // In the first basis all bins are full, if the flow has a choice at all.
    let full = problem.flows.iter().zip(bins).flat_map(|(flow, bins)| {
        let status =
            if flow.choices().is_empty() { BasisStatus::Lower } else { BasisStatus::Upper };
        bins.iter().map(move |_| status)
    });
    columns.extend(full);
    for (status, flow) in row_status.iter_mut().zip(&problem.flows) {
        if !flow.choices().is_empty() {
            *status = BasisStatus::Lower;
        }
    }
    highs.begin(&columns, &row_status)?;
    let mut shares = highs.run()?.columns;
    shares.truncate(problem.choices.len());
    Ok(shares)
}
