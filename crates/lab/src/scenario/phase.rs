use std::collections::HashSet;

use forebay_config::{ConfigError, DurationValue, Spanned};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::rules::Check;

/// Phases of one scenario.
const MAX_PHASES: usize = 100;

/// A named part of the run, for traffic that is on in it and for figures to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it begins, from the start of the run (warm-up included).
    pub start: Nanos,
    /// When it ends, from the start of the run.
    pub stop: Nanos,
}

impl Phase {
    /// The same phase in a run that ends at `length`; `None` if it would begin after that.
    pub(super) fn within(self, length: Nanos) -> Option<Self> {
        (self.start < length).then(|| Self { stop: self.stop.min(length), ..self })
    }
}

/// `[[phase]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseTable {
    name: Spanned<String>,
    /// The end of the phase before if left out.
    start: Option<Spanned<DurationValue>>,
    /// The end of the run if left out.
    stop: Option<Spanned<DurationValue>>,
}

/// The phases that `tables` describe in a run of `length`, as written; they may overlap.
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
