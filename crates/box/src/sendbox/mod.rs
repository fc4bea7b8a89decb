//! The sendbox: queues each bundle and lets it out at the rate its control loop says, either
//! between two ports of its own ([`user`]) or in the queues of the kernel ([`kernel`]).
//!
//! The loop is the same over both ([`bundles`]): it is told what left, what came back and what
//! waits, and says at what rate.

mod bundle;
mod bundles;
mod classifier;
mod kernel;
mod logs;
mod tree;
mod user;

use forebay_units::Nanos;

pub use self::kernel::SUPERVISOR;
pub use self::logs::LogPaths;
pub use self::tree::plan;
pub(crate) use self::user::chunks;

use crate::Error;
use crate::config::{Dataplane, SendboxConfig};
use crate::signals::Signals;

/// How often each bundle's rate is set (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);

/// Runs a sendbox until SIGTERM or SIGINT.
///
/// When it forwards, or with the kernel's queues when they are set up, it says so on standard
/// output as a line of JSON.
///
/// # Errors
/// If it cannot be set up, in which case everything is as it was; or if a log cannot be written.
pub fn run(config: SendboxConfig, paths: &LogPaths) -> Result<(), Error> {
    let signals = Signals::block().map_err(Error::Signals)?;
    let SendboxConfig { outside, dataplane, listen, bundles } = config;
    match dataplane {
        Dataplane::User(ports) => user::run(outside, ports, listen, bundles, paths, &signals),
        Dataplane::Kernel { foreign } => {
            kernel::run(outside, foreign, listen, bundles, paths, &signals)
        }
    }
}
