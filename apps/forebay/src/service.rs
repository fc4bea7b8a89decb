//! What the commands with an HTTP server share.

use std::net::SocketAddr;

use forebay_cli::terminal::{print, raised_by_signals};
use forebay_web::Stop;

/// Makes Ctrl-C and SIGTERM stop a service in an orderly way.
pub(crate) fn stop() -> Result<Stop, impl std::fmt::Display> {
    raised_by_signals(Stop::stop)
}

/// Prints that a service listens at `address`.
pub(crate) fn ready(address: SocketAddr) {
    // A closed standard output is no error.
    let _ = print(&format!("{{\"event\":\"ready\",\"listen\":\"{address}\"}}\n"));
}
