//! Real guests at a real back end: User-mode Linux with virtio-net. Their TCP goes through the back
//! end's process to a sink in a namespace of its own.
//!
//! One program has all roles: the test, the back end's process, and each guest's first process. It
//! calls [`as_started`] before anything else, and [`greedy`], [`shared`], [`mixed`] or
//! [`with_dualpi2`] in its own role.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod backend;
mod guest;
mod machine;
mod mixed;
mod percentiles;
mod requests;
mod scenario;
mod sink;
mod stream;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use forebay_guest::{Error, Interrupt, Kernel, kernel_file};
use forebay_test_support::{Need, has_root, skip};

pub use self::backend::EgressKind;
pub use self::scenario::{Inside, Mode, Run, greedy, mixed, shared, with_dualpi2};

/// Runs the role that the arguments name; returns `None` for the test itself.
pub fn as_started() -> Option<ExitCode> {
    let words: Vec<_> = env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("backend") => Some(backend::main(Path::new(&words[2]))),
        Some("guest") => Some(guest::main(&words[2..])),
        _ => None,
    }
}

/// Returns a kernel for guests. Without one, reports a skip of the calling test.
///
/// # Panics
/// If the kernel cannot be built for a reason that is not this machine's.
#[track_caller]
pub fn kernel(which: Kernel) -> Option<std::path::PathBuf> {
    if !has_root() {
        return None;
    }
    match kernel_file(which, &Interrupt::default()) {
        Ok(kernel) => Some(kernel),
        Err(Error::Unfit(why)) => {
            skip(Need::Kernel, &why);
            None
        }
        Err(e) => panic!("{e}"),
    }
}
