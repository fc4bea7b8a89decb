//! Something that happens again and again.

use forebay_units::Nanos;

/// When it happens next that was due at `due` and every `period`. What was missed is not made up
/// for.
pub(crate) fn next(due: Nanos, period: Nanos, now: Nanos) -> Nanos {
    if due + period > now { due + period } else { now + period }
}
