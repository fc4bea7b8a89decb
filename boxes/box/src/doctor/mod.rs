//! `forebay doctor`: which boxes a machine can run, and what prevents others.
//!
//! It gathers facts ([`probe`]), judges them ([`checks`]) and shows a [`Report`]. Gathering changes
//! nothing: trials run on the loopback interface of a new network namespace, which ends with its
//! thread ([`scratch`]). The machine's own interfaces are only queried.

mod checks;
mod facts;
mod peers;
mod probe;
mod report;
mod scratch;
mod target;

use std::path::Path;

pub use report::{Check, Report, Role, Verdict};

/// Checks this machine, and the needs of the configuration at `file`; without one, all interfaces
/// that are up.
///
/// It tests whether the receiveboxes of a sendbox's configuration answer, which takes up to a
/// second and does not change their state.
pub fn examine(file: Option<&Path>) -> Report {
    let target = file.map(target::Target::load);
    let facts = probe::facts(target.as_ref());
    Report::new(facts.plan.as_ref().map(|p| p.role), checks::all(&facts))
}
