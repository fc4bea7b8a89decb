//! The daemons' clock.

use forebay_units::Nanos;

/// The longest time between two readings of clocks without an interruption. A reading takes tens of
/// nanoseconds, or microseconds where it needs a system call.
const ONE_MOMENT: Nanos = Nanos::from_micros(10);

/// Reads `CLOCK_MONOTONIC`, which is the same in every process and network namespace of a machine,
/// and in BPF's `bpf_ktime_get_ns`.
pub fn now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// Reads `CLOCK_REALTIME`, which the kernel uses for the time stamps of received messages. It may
/// be set at any time.
fn wall() -> Nanos {
    read(libc::CLOCK_REALTIME)
}

/// Reads [`now`] and `CLOCK_REALTIME` at the same moment.
pub fn both() -> (Nanos, Nanos) {
    let mut before = now();
    // If this thread loses the CPU between two readings, it tries again.
    for _ in 0..4 {
        let (wall, after) = (wall(), now());
        if after.saturating_sub(before) < ONE_MOMENT {
            return (before, wall);
        }
        before = after;
    }
    (before, wall())
}

/// Converts a `timespec` of the kernel.
pub fn nanos(t: libc::timespec) -> Nanos {
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Reads one of the kernel's clocks.
fn read(clock: libc::clockid_t) -> Nanos {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is valid for writing; these clocks always exist, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut t) };
    nanos(t)
}
