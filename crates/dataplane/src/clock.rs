//! The daemons' clock.

use forebay_units::Nanos;

/// Reading a clock takes some tens of nanoseconds, and microseconds where it needs a system call.
const ONE_MOMENT: Nanos = Nanos::from_micros(10);

/// `CLOCK_MONOTONIC`: the same in every process and network namespace of a machine, and what BPF's
/// `bpf_ktime_get_ns` tells.
pub fn now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, by which the kernel stamps what sockets receive. It may be set.
fn wall() -> Nanos {
    read(libc::CLOCK_REALTIME)
}

/// [`now`], and `CLOCK_REALTIME` of the same moment.
pub fn both() -> (Nanos, Nanos) {
    let mut before = now();
    // Whoever loses the processor between two readings would take that for time that passed.
    for _ in 0..4 {
        let (wall, after) = (wall(), now());
        if after.saturating_sub(before) < ONE_MOMENT {
            return (before, wall);
        }
        before = after;
    }
    (before, wall())
}

/// A kernel's time.
pub fn nanos(t: libc::timespec) -> Nanos {
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

fn read(clock: libc::clockid_t) -> Nanos {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is valid for writing; these clocks always exist, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut t) };
    nanos(t)
}
