//! The CPUs on which threads of a test run.

use std::mem::{size_of_val, zeroed};

/// Returns the CPUs on which this thread may run.
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: the set is initialised, lives through the call, and its size is passed.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        set
    };
    // SAFETY: the numbers are within the set.
    let is_set = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_set).collect()
}

/// Returns the CPU on which this thread runs now.
pub(crate) fn current() -> usize {
    // SAFETY: the call takes no arguments.
    unsafe { libc::sched_getcpu() as usize }
}

/// Keeps this thread on one CPU.
pub(crate) fn stay_on(cpu: usize) {
    // SAFETY: the set is initialised, and lives through the calls.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}
