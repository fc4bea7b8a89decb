use forebay_config::{ConfigError, DurationValue, Spanned};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::check::Check;

/// Faults of one scenario.
const MAX_FAULTS: usize = 100;

/// A process that is killed without warning in the middle of a run, in the arms that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Which process.
    pub process: Process,
    /// When it is killed, from the start of the run (warm-up included).
    pub at: Nanos,
    /// When it is started again, from the start of the run; `None` if it stays dead.
    pub back: Option<Nanos>,
}

/// A process that may be killed. Not the sendbox: the account of its packets dies with it, and
/// without that no run is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// The receivebox, in arms whose sendbox has a bundle.
    Receivebox,
}

impl Process {
    /// Its name in experiment files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receivebox => "receivebox",
        }
    }
}

impl Fault {
    /// The same fault in a run that ends at `length`; `None` if it would come after that.
    pub(super) fn within(self, length: Nanos) -> Option<Self> {
        let back = self.back.filter(|back| *back < length);
        (self.at < length).then_some(Self { back, ..self })
    }
}

/// `[[fault]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultTable {
    process: Process,
    at: Spanned<DurationValue>,
    back: Option<Spanned<DurationValue>>,
}

/// The faults that `tables` describe in a run of `length`, in the order of their times.
pub(super) fn faults(
    check: &Check<'_>,
    tables: &[FaultTable],
    length: Nanos,
) -> Result<Vec<Fault>, ConfigError> {
    if let Some(table) = tables.get(MAX_FAULTS) {
        let what = format!("at most {MAX_FAULTS} faults are allowed");
        return Err(check.0.error_at(table.at.span(), "fault", what));
    }
    let mut tables: Vec<_> = tables.iter().collect();
    tables.sort_by_key(|table| table.at.get_ref().0);
    let mut faults: Vec<Fault> = Vec::new();
    for table in tables {
        let at = table.at.get_ref().0;
        if at >= length {
            let what = format!("must be within the run of {length}");
            return Err(check.0.error_at(table.at.span(), "fault.at", what));
        }
        if let Some(back) = &table.back
            && !(at < back.get_ref().0 && back.get_ref().0 < length)
        {
            let what = format!("must be after at = {at}, within the run of {length}");
            return Err(check.0.error_at(back.span(), "fault.back", what));
        }
        let mut before = faults.iter().filter(|fault| fault.process == table.process);
        if before.any(|fault| fault.back.is_none_or(|back| back >= at)) {
            let name = table.process.name();
            let what = format!("the {name} is dead then: let another fault bring it `back` before");
            return Err(check.0.error_at(table.at.span(), "fault.at", what));
        }
        let back = table.back.as_ref().map(|back| back.get_ref().0);
        faults.push(Fault { process: table.process, at, back });
    }
    Ok(faults)
}
