//! `forebay lab reproduce`: runs the claims of the catalogue.

mod options;
mod rows;
mod scenarios;

use std::path::Path;

use forebay_claims::catalogue::{self, Method};
use forebay_cli::terminal::print;

use super::Failure;
use crate::cli::ReproduceArgs;

/// Runs the claims of an evaluation and writes its page; without a name, lists all claims.
pub(super) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let Some(name) = &args.name else { return list(&args.experiments) };
    match Method::of(name) {
        Method::Scenarios => scenarios::run(name, args),
        Method::Rows => rows::run(name, args),
        Method::Unison => {
            Err(format!("the planner tries `{name}`: `forebay plan reproduce`").into())
        }
    }
}

fn list(experiments: &Path) -> Result<(), Failure> {
    let all = catalogue::list(experiments)?;
    if all.is_empty() {
        let dir = experiments.display();
        return Err(format!("no claims in {dir}: run this in the repository").into());
    }
    for entry in all {
        print(&format!("{}: {}\n", entry.name, entry.title))?;
        for claim in entry.claims {
            let engines = claim.engines.join(", ");
            print(&format!("  {:<16} {} [{engines}]\n", claim.id, claim.title))?;
        }
    }
    Ok(())
}
