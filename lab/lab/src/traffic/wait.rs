use std::time::Duration;

use forebay_system::clock;
use forebay_units::Nanos;

/// Blocks until `instant` of `CLOCK_MONOTONIC`; returns at once if it has passed.
pub(super) fn sleep_until(instant: Nanos) {
    let t = libc::timespec {
        tv_sec: (instant.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (instant.0 % 1_000_000_000) as libc::c_long,
    };
    // A signal interrupts the sleep; the time is absolute, so it just sleeps again. SAFETY: `t` is
    // valid for reading, and nothing is written for an absolute deadline.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &t, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

/// The time until `deadline`, at least a microsecond, since socket timeouts must not be zero;
/// `None` after the deadline.
pub(super) fn left_until(deadline: Nanos) -> Option<Duration> {
    let left = deadline.checked_sub(clock::now())?;
    Some(Duration::from_nanos(left.0.max(1_000)))
}
