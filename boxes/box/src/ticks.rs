//! The times of periodic ticks.

use forebay_units::Nanos;

/// Returns the next due time of a tick that was due at `due`. Missed ticks are skipped.
pub(crate) fn next(due: Nanos, period: Nanos, now: Nanos) -> Nanos {
    if due + period > now { due + period } else { now + period }
}
