//! The sendbox: queues each bundle, and sends it at the rate of its control loop. The queues are
//! between two ports of its own ([`user`]) or in the kernel ([`kernel`]).
//!
//! The control loops are the same over both ([`bundles`]). They get departures, feedback and
//! backlogs, and return rates.

mod bundle;
mod bundles;
mod classifier;
mod kernel;
mod link_headers;
mod logs;
mod tree;
mod user;

use forebay_units::Nanos;

pub use self::logs::LogPaths;
pub use self::tree::plan;
pub(crate) use self::user::chunks;

use crate::Error;
use crate::config::{Dataplane, ReceiveboxConfig, SendboxConfig, SiteConfig};
use crate::receivebox::{self, Receivebox};
use crate::signals::Signals;

/// The time between two settings of a bundle's rate (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);

/// Runs a sendbox until SIGTERM or SIGINT.
///
/// When it forwards, or when the kernel's queues are set up, it prints a line of JSON on standard
/// output.
///
/// # Errors
/// If the set-up fails, which leaves everything as it was; if an interface is removed or its MTU
/// grows beyond the buffers; or, at the end, if records were lost.
pub fn run(config: SendboxConfig, paths: &LogPaths) -> Result<(), Error> {
    let signals = Signals::block().map_err(Error::Signals)?;
    let SendboxConfig { outside, dataplane, listen, bundles } = config;
    match dataplane {
        Dataplane::User(ports) => user::run(outside, ports, listen, bundles, paths, &signals),
        Dataplane::Kernel { foreign } => {
            kernel::run(outside, foreign, listen, bundles, None, paths, &signals)
        }
    }
}

/// Runs both boxes of a site over the kernel's queues, until SIGTERM or SIGINT.
///
/// # Errors
/// As [`run`] and [`receivebox::run`].
pub fn run_site(config: SiteConfig, paths: &LogPaths) -> Result<(), Error> {
    let SiteConfig { interface, foreign, listen, bundles, peers } = config;
    if bundles.is_empty() {
        return receivebox::run(ReceiveboxConfig { interface, listen, peers });
    }
    let signals = Signals::block().map_err(Error::Signals)?;
    let receivebox = match peers.is_empty() {
        true => None,
        false => Some(Receivebox::attach(interface.clone(), peers)?),
    };
    kernel::run(interface, foreign, Some(listen), bundles, receivebox, paths, &signals)
}
