//! `forebay lab zd`: one experiment with the zD kernel patch and without.

use std::path::Path;

use forebay_cli::terminal::{note, print_beside};
use forebay_guest::zd;

use super::{Failure, interrupt, write};

/// Runs one experiment and prints its table.
pub(super) fn run(file: &Path, json: Option<&Path>) -> Result<(), Failure> {
    let experiment = zd::Experiment::load(file)?;
    let mut lines = String::new();
    let runs = zd::run_all(&experiment, &interrupt()?, &mut |run| {
        note(&run.line());
        lines += &(run.json() + "\n");
    })?;
    print_beside(json, &zd::table(&experiment, &runs))?;
    match json {
        Some(json) => write(json, &lines),
        None => Ok(()),
    }
}
