use std::collections::HashSet;

use forebay_config::{ConfigError, DurationValue, Spanned};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::rules::Check;

/// The largest number of phases in a scenario.
const MAX_PHASES: usize = 100;

/// A named part of the run, for traffic that is on during it and for figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The name of the phase.
    pub name: String,
    /// The start, from the start of the run (warm-up included).
    pub start: Nanos,
    /// The end, from the start of the run.
    pub stop: Nanos,
}

impl Phase {
    /// Returns the phase for a run that ends at `length`; `None` if it would begin later.
    pub(super) fn within(self, length: Nanos) -> Option<Self> {
        (self.start < length).then(|| Self { stop: self.stop.min(length), ..self })
    }
}

/// A phase in `[[phase]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseTable {
    name: Spanned<String>,
    /// The start; the end of the previous phase by default.
    start: Option<Spanned<DurationValue>>,
    /// The end; the end of the run by default.
    stop: Option<Spanned<DurationValue>>,
}

/// Checks the phases in `tables` for a run of `length`. They may overlap.
pub(super) fn phases(
    check: &Check<'_>,
    tables: &[PhaseTable],
    length: Nanos,
) -> Result<Vec<Phase>, ConfigError> {
    if let Some(table) = tables.get(MAX_PHASES) {
        let what = format!("at most {MAX_PHASES} phases are allowed");
        return Err(check.0.error_at(table.name.span(), "phase", what));
    }
    let mut phases: Vec<Phase> = Vec::new();
    let mut names = HashSet::new();
    for table in tables {
        check.name(&table.name, "phase.name")?;
        if !names.insert(table.name.get_ref()) {
            let what = format!("\"{}\" stands twice: names must differ", table.name.get_ref());
            return Err(check.0.error_at(table.name.span(), "phase.name", what));
        }
        let before = phases.last().map_or(Nanos::ZERO, |p| p.stop);
        let start = table.start.as_ref().map_or(before, |t| t.get_ref().0);
        let stop = table.stop.as_ref().map_or(length, |t| t.get_ref().0);
        if !(start < stop && stop <= length) {
            let (key, given) = match (&table.stop, &table.start) {
                (Some(stop), _) => ("phase.stop", stop.span()),
                (None, Some(start)) => ("phase.start", start.span()),
                (None, None) => ("phase", table.name.span()),
            };
            let what = format!("a phase must start before it stops, within the run of {length}");
            return Err(check.0.error_at(given, key, what));
        }
        phases.push(Phase { name: table.name.get_ref().clone(), start, stop });
    }
    Ok(phases)
}
