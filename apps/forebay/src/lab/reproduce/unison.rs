//! Runs the claims of Unison's evaluation with the planner.

use std::path::Path;

use super::super::Failure;
use super::options;
use crate::cli::{PlanReproduceArgs, ReproduceArgs};
use crate::plan;

/// Runs the evaluation and writes its page, as `forebay plan reproduce` does.
pub(super) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let page = options::page(args, Path::new("docs/results/unison.md"))?;
    let refused = !args.engines.is_empty()
        || !args.only.is_empty()
        || (args.missing || args.quick)
        || (args.jobs.is_some() || args.records.is_some() || args.json.is_some());
    if refused {
        return Err(
            "`unison` takes only --seeds, --page and --out: `forebay plan reproduce` has more options"
                .into(),
        );
    }
    let usual = PlanReproduceArgs::usual();
    let seeds = args.seeds.map_or(usual.seeds, u64::from);
    plan::reproduce(&PlanReproduceArgs { seeds, page: args.page, out: page, ..usual })
}
