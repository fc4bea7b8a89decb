//! What tests with namespaces share: networks with boxes, traffic through them, and their
//! observers.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use forebay_test_support::namespace::Namespace;

pub(crate) mod capture;
pub(crate) mod classes;
pub(crate) mod interop;
pub(crate) mod lab;
pub(crate) mod link;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod sites;
pub(crate) mod span;
pub(crate) mod transfer;
pub(crate) mod weights;

/// The command that is tested.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Bound on a wait for something that happens for certain. No verdict depends on it.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(100);

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANG_TIMEOUT, "{what}: not within {HANG_TIMEOUT:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a command that runs `forebay` with these arguments in a namespace.
pub(crate) fn forebay_in(namespace: &Namespace, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.0, PROGRAM]).args(arguments);
    command
}
