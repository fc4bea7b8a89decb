//! What tests with namespaces share: networks with boxes, traffic through them, and their
//! observers.

use std::process::Command;

use forebay_test_support::namespace::Namespace;
pub(crate) use forebay_test_support::process::{HANG_TIMEOUT, until};

pub(crate) mod capture;
pub(crate) mod classes;
pub(crate) mod link;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod sites;
pub(crate) mod span;
pub(crate) mod transfer;
pub(crate) mod weights;

/// The command that is tested.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// Returns a command that runs `forebay` with these arguments in a namespace.
pub(crate) fn forebay_in(namespace: &Namespace, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.0, PROGRAM]).args(arguments);
    command
}
