//! Least privilege: what a daemon gives up, because it needs it only for its set-up or not at all.
//!
//! A daemon calls [`protect`] before it reads a key, [`keep_only`] when its set-up is complete and
//! before it starts threads, and [`restrict_calls`] last. None of them fails: a container or an old
//! kernel may refuse a step, which is logged as a warning, and the daemon goes on with the rights
//! that it has.

mod calls;
mod capabilities;

use std::io;

pub use self::calls::{Extra, restrict_calls};
pub use self::capabilities::{Capability, keep_only};

/// Keeps the memory of this process out of core dumps, and away from other processes of the same
/// user. Commands that it starts cannot gain rights by their files' set-user-ID bits or
/// capabilities.
pub fn protect() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for reading.
    note("core dumps", check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) }));
    note("access to the memory", control(libc::PR_SET_DUMPABLE, 0));
    note("new rights of commands", control(libc::PR_SET_NO_NEW_PRIVS, 1));
}

/// Calls prctl(2) with one argument.
fn control(option: libc::c_int, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options of this module take integers and no pointers.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) })
}

/// Converts the answer of a system call.
fn check(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Warns that `what` stays as it was, if the kernel refused a step.
fn note(what: &str, done: io::Result<()>) {
    if let Err(e) = done {
        tracing::warn!(
            "{what} cannot be given up: {e}; this process keeps more rights than needed"
        );
    }
}
