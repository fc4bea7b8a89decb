//! The daemons' clock.

use forebay_units::Nanos;

/// `CLOCK_MONOTONIC`: the same in every process and network namespace of a machine, and what BPF's
/// `bpf_ktime_get_ns` tells.
pub fn now() -> Nanos {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is valid for writing; this clock always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}
