//! Processes of boxes.

use std::path::Path;

use forebay_test_support::namespace::Namespace;
pub(crate) use forebay_test_support::process::Process;

use super::forebay_in;

/// Starts `forebay` in a namespace, and waits until it is ready. Its standard error goes to `log`.
pub(crate) fn start(namespace: &Namespace, arguments: &[&str], log: &Path) -> Process {
    // Only services have a directory in which they remember paths.
    let mut command = forebay_in(namespace, arguments);
    Process::start_logging(command.env_remove("RUNTIME_DIRECTORY"), "", log)
}
