//! The part of a run that counts, and what is taken from samples and ticks within it.

use forebay_lab::analysis::Sorted;
use forebay_lab::results::{Run, Tick};
use forebay_units::Nanos;

use super::quantity::Statistic;

/// A statistic of values; `None` if there are none.
pub(super) fn statistic(values: &Sorted, at: Statistic) -> Option<f64> {
    match at {
        Statistic::Percentile(percent) => values.percentile(percent),
        Statistic::Mean => values.mean(),
    }
}

/// From when to when: the phase, within what is measured.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) from: u64,
    to: u64,
}

impl Window {
    pub(super) fn of(run: &Run, phase: Option<&str>) -> Self {
        let (start, end) = (run.start.0, run.end.0);
        match phase.map(|name| run.phases.iter().find(|p| p.name == name)) {
            None => Self { from: start, to: end },
            Some(Some(p)) => Self { from: p.start.clamp(start, end), to: p.stop.clamp(start, end) },
            // A short run does not come to it.
            Some(None) => Self { from: end, to: end },
        }
    }

    pub(super) fn holds(self, time: u64) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// Whether an interval that ended at `time` counts.
    pub(super) fn ends(self, time: u64) -> bool {
        self.from < time && time <= self.to
    }

    pub(super) fn length(self) -> Nanos {
        Nanos(self.to - self.from)
    }
}

/// Whether a tick says that mode, however it writes its words apart.
pub(super) fn is_mode(tick: &Tick, mode: &str) -> bool {
    let plain = |c: char| if matches!(c, ' ' | '-') { '_' } else { c };
    tick.mode.chars().map(plain).eq(mode.chars().map(plain))
}
