use std::path::Path;

use forebay_lab::compare::{self, Comparison};
use forebay_lab::report;

use super::{Failure, print_report_beside, write};
use crate::cli::CompareArgs;

/// Compares two stored results. It is an error if too few pairs are within their bands.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (mut a, mut b) = (compare::load(&args.a)?, compare::load(&args.b)?);
    if let Some(arms) = &args.arms {
        (a, b) = arms.select(a, b);
    }
    compare::side_by_side(&a, &mut b);
    let comparison = match args.leave_one_out {
        Some(_) => compare::leave_one_out(&a, &b, &args.band),
        None => compare::compare(&a, &b, &args.band),
    };
    let text = compare::text(&comparison, report::colour_wanted());
    print_report_beside(args.json.as_deref(), &text)?;
    let name = |path: &Path| path.display().to_string();
    let (a, b) = (name(&args.a), name(&args.b));
    if let Some(file) = &args.json {
        write(file, &(serde_json::to_string_pretty(&comparison)? + "\n"))?;
    }
    if let Some(file) = &args.html {
        write(file, &compare::html(&comparison, &a, &b))?;
    }
    if let Some(file) = &args.markdown {
        write(file, &compare::markdown(&comparison, &a, &b))?;
    }
    judge(&comparison, args.require)?;
    args.leave_one_out.map_or(Ok(()), |fewer| judge_by_single_runs(&comparison, fewer))
}

/// It is an error if the pairs within their bands are more than `fewer` fewer than those in which
/// one run of B predicts the others.
fn judge_by_single_runs(comparison: &Comparison, fewer: u32) -> Result<(), Failure> {
    let Some(runs) = comparison.single_runs else {
        return Err("a cell and arm has only one run of B: --leave-one-out needs two seeds".into());
    };
    if comparison.total.within as f64 + f64::from(fewer) < runs.b {
        return Err(format!(
            "{} pairs are within their bands, {:.1} less {fewer} are required",
            comparison.total.within, runs.b,
        )
        .into());
    }
    Ok(())
}

fn judge(comparison: &Comparison, required: Option<f64>) -> Result<(), Failure> {
    let Some(share) = comparison.total.share() else {
        return Err("nothing to compare: no two runs have the same cell, arm and seed".into());
    };
    match required {
        Some(required) if share < required => Err(format!(
            "{:.1} % of the pairs are within their bands, {} % are required",
            share * 100.0,
            required * 100.0
        )
        .into()),
        _ => Ok(()),
    }
}
