//! Simulated time as `quinn-proto` expects it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use forebay_units::Nanos;

/// The instant that stands for the start of every simulation. Only differences matter.
pub(crate) static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the instant that stands for a simulated time.
pub fn instant(time: Nanos) -> Instant {
    *START + Duration::from_nanos(time.0)
}

/// Returns the simulated time for which an instant stands.
pub(crate) fn simulated(instant: Instant) -> Nanos {
    let since = instant.saturating_duration_since(*START);
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
