use forebay_config::{ConfigError, DurationValue, Spanned};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::rules::{Check, MAX_RTT};

/// The largest number of faults in a scenario.
const MAX_FAULTS: usize = 100;

/// A fault in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The time from the start of the run, warm-up included.
    pub at: Nanos,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// A kind of fault, which happens in every arm that has the affected part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A process is killed.
    Killed {
        /// The process that is killed.
        process: Process,
        /// The time of its restart, from the start of the run; `None` if it stays dead.
        back: Option<Nanos>,
    },
    /// A box's clock jumps.
    Clock {
        /// The clock that jumps.
        of: Clock,
        /// The jump in nanoseconds; above zero if the clock jumps ahead.
        by: i64,
    },
    /// The round-trip time of the path changes for the rest of the run.
    Route {
        /// The new round-trip time of the empty path.
        rtt: Nanos,
    },
}

/// A process that may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// The receivebox, in arms whose sendbox has a bundle.
    Receivebox,
    /// The sendboxes, in arms whose sendbox has a bundle. While they are dead, nothing passes them
    /// in either direction.
    Sendbox,
}

impl Process {
    /// The name in experiment files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receivebox => "receivebox",
            Self::Sendbox => "sendbox",
        }
    }
}

/// A box whose clock may jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The sendbox's clock. It is monotonic and jumps ahead only, as after a suspension of its
    /// machine.
    Sendbox,
    /// The receivebox's clock.
    Receivebox,
}

impl Fault {
    /// Returns the fault for a run that ends at `length`; `None` if it would happen later.
    pub(super) fn within(self, length: Nanos) -> Option<Self> {
        let kind = match self.kind {
            FaultKind::Killed { process, back } => {
                FaultKind::Killed { process, back: back.filter(|back| *back < length) }
            }
            other => other,
        };
        (self.at < length).then_some(Self { kind, ..self })
    }
}

/// A fault in `[[fault]]`, with exactly one of `process`, `clock` and `rtt`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultTable {
    at: Spanned<DurationValue>,
    process: Option<Process>,
    /// The time of a killed process's restart.
    back: Option<Spanned<DurationValue>>,
    clock: Option<Clock>,
    /// The jump of a clock, `ahead` or `behind`.
    ahead: Option<Spanned<DurationValue>>,
    behind: Option<Spanned<DurationValue>>,
    rtt: Option<Spanned<DurationValue>>,
}

/// Checks the faults in `tables` for a run of `length` and sorts them by time.
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
        faults.push(Fault { at, kind: table.kind(check, &faults, length)? });
    }
    Ok(faults)
}

impl FaultTable {
    fn kind(
        &self,
        check: &Check<'_>,
        before: &[Fault],
        length: Nanos,
    ) -> Result<FaultKind, ConfigError> {
        let Self { process, back, clock, ahead, behind, rtt, .. } = self;
        match (process, clock, rtt) {
            (Some(process), None, None) if ahead.is_none() && behind.is_none() => {
                self.killed(check, *process, before, length)
            }
            (None, Some(clock), None) if back.is_none() => self.jump(check, *clock),
            (None, None, Some(rtt)) if back.is_none() && ahead.is_none() && behind.is_none() => {
                let new = rtt.get_ref().0;
                if new > MAX_RTT {
                    return Err(check.0.error_at(rtt.span(), "fault.rtt", "must be at most 2 s"));
                }
                Ok(FaultKind::Route { rtt: new })
            }
            _ => {
                let what = "give it process, clock or rtt, one of them: a process may come `back`, \
                            a clock goes `ahead` or `behind`";
                Err(check.0.error_at(self.at.span(), "fault", what))
            }
        }
    }

    fn killed(
        &self,
        check: &Check<'_>,
        process: Process,
        before: &[Fault],
        length: Nanos,
    ) -> Result<FaultKind, ConfigError> {
        let at = self.at.get_ref().0;
        if let Some(back) = &self.back
            && !(at < back.get_ref().0 && back.get_ref().0 < length)
        {
            let what = format!("must be after at = {at}, within the run of {length}");
            return Err(check.0.error_at(back.span(), "fault.back", what));
        }
        let dead = |fault: &Fault| match fault.kind {
            FaultKind::Killed { process: other, back } => {
                other == process && back.is_none_or(|back| back >= at)
            }
            _ => false,
        };
        if before.iter().any(dead) {
            let name = process.name();
            let what = format!("the {name} is dead then: let another fault bring it `back` before");
            return Err(check.0.error_at(self.at.span(), "fault.at", what));
        }
        Ok(FaultKind::Killed { process, back: self.back.as_ref().map(|back| back.get_ref().0) })
    }

    fn jump(&self, check: &Check<'_>, of: Clock) -> Result<FaultKind, ConfigError> {
        let nanos = |value: &Spanned<DurationValue>| i64::try_from(value.get_ref().0.0).ok();
        let by = match (&self.ahead, &self.behind) {
            (Some(ahead), None) => nanos(ahead),
            (None, Some(behind)) if of == Clock::Sendbox => {
                let what = "the sendbox's clock is monotonic: it only goes `ahead`";
                return Err(check.0.error_at(behind.span(), "fault.behind", what));
            }
            (None, Some(behind)) => nanos(behind).map(|by| -by),
            _ => None,
        };
        let Some(by) = by else {
            let what = "a clock goes `ahead` or `behind`: give one of them";
            return Err(check.0.error_at(self.at.span(), "fault.clock", what));
        };
        Ok(FaultKind::Clock { of, by })
    }
}
