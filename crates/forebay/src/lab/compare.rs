use std::path::Path;

use forebay_lab::compare::{self, Comparison};
use forebay_lab::report;

use super::{Failure, write};
use crate::cli::CompareArgs;
use crate::terminal::print_beside;

/// Compares two stored results. It is an error if too few pairs are within their bands.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (mut a, mut b) = (compare::load(&args.a)?, compare::load(&args.b)?);
    if let Some(arms) = &args.arms {
        (a, b) = arms.select(a, b);
    }
    compare::side_by_side(&a, &mut b);
    let comparison = compare::compare(&a, &b, &args.band);
    let text = compare::text(&comparison, report::colour_wanted());
    print_beside(args.json.as_deref(), &text)?;
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
    judge(&comparison, args.require)
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
