//! The part of a run that counts, and statistics of samples and ticks within it.

use forebay_lab::analysis::Sorted;
use forebay_lab::results::{Run, Tick};
use forebay_units::Nanos;

use super::quantity::Statistic;

/// Computes a statistic of values; `None` if there are none.
pub(super) fn statistic(values: &Sorted, at: Statistic) -> Option<f64> {
    match at {
        Statistic::Percentile(percent) => values.percentile(percent),
        Statistic::Mean => values.mean(),
    }
}

/// The measured time, or the part of it that a phase covers, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) from: u64,
    to: u64,
}

impl Window {
    /// The window of the phase with this name, or of the whole measured time.
    pub(super) fn of(run: &Run, phase: Option<&str>) -> Self {
        let (start, end) = (run.start.0, run.end.0);
        match phase.map(|name| run.phases.iter().find(|p| p.name == name)) {
            None => Self { from: start, to: end },
            Some(Some(p)) => Self { from: p.start.clamp(start, end), to: p.stop.clamp(start, end) },
            // A short run ends before the phase.
            Some(None) => Self { from: end, to: end },
        }
    }

    /// Whether `time` lies in the window.
    pub(super) fn holds(self, time: u64) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// Whether an interval that ended at `time` lies in the window.
    pub(super) fn ends(self, time: u64) -> bool {
        self.from < time && time <= self.to
    }

    /// The length of the window.
    pub(super) fn length(self) -> Nanos {
        Nanos(self.to - self.from)
    }
}

/// Whether the tick is in `mode`; spaces, hyphens and underscores count as the same.
pub(super) fn is_mode(tick: &Tick, mode: &str) -> bool {
    let plain = |c: char| if matches!(c, ' ' | '-') { '_' } else { c };
    tick.mode.chars().map(plain).eq(mode.chars().map(plain))
}
