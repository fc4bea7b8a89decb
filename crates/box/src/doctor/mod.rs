//! What a machine can be and what stands in the way, found before a box is started: `forebay
//! doctor`.
//!
//! Facts are gathered first ([`probe`]), judged then ([`checks`]) and shown last ([`Report`]).
//! Gathering changes nothing: what has to be tried is tried on the loopback interface of a network
//! namespace that is made for it and goes with its thread ([`scratch`]); the machine's own
//! interfaces are only asked.

mod checks;
mod facts;
mod peers;
mod probe;
mod report;
mod scratch;
mod target;

use std::path::Path;

pub use report::{Check, Report, Role, Verdict};

/// Looks at this machine, and at what the configuration at `file` asks for; without one, at all
/// interfaces that are up.
///
/// A receivebox that a sendbox's configuration names is asked whether it answers, which takes up to
/// a second; it is told nothing that it would keep.
pub fn examine(file: Option<&Path>) -> Report {
    let target = file.map(target::Target::load);
    let facts = probe::facts(target.as_ref());
    Report::new(facts.plan.as_ref().map(|p| p.role), checks::all(&facts))
}
