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
mod waits;

use std::net::SocketAddr;
use std::path::Path;

use forebay_dataplane::Netdev;
use forebay_units::{Nanos, Rate};

pub(crate) use self::bundle::BOTH_KEYS;
pub use self::logs::LogPaths;
pub use self::tree::plan;
pub(crate) use self::user::chunks;

use crate::Error;
use crate::config::{BundleConfig, Dataplane, ReceiveboxConfig, SendboxConfig, SiteConfig};
use crate::forward::WireEnd;
use crate::handover::Handed;
use crate::memory::PathMemory;
use crate::receivebox::{self, Receivebox};
use crate::reload::Reloader;
use crate::signals::Signals;

/// The time between two settings of a bundle's rate (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);

/// Runs a sendbox until SIGTERM or SIGINT. SIGHUP reads `file`, which `config` is from, again.
///
/// When it forwards, or when the kernel's queues are set up, it prints a line of JSON on standard
/// output. `end` says what becomes of a wire in user space at an orderly end.
///
/// # Errors
/// If the set-up fails, which leaves everything as it was; if an interface is removed or its MTU
/// grows beyond the buffers; or, at the end, if records were lost.
pub fn run(
    config: SendboxConfig,
    file: &Path,
    paths: &LogPaths,
    end: WireEnd,
) -> Result<(), Error> {
    let signals = Signals::block_with_reload().map_err(Error::Signals)?;
    let reloader = Reloader::new(file, &config);
    let handed = Handed::take("sendbox", &config.outside.name);
    let memory = PathMemory::open("sendbox", &config.outside.name);
    let SendboxConfig { outside, dataplane, listen, bundles, limit } = config;
    let (role, signals) = ("sendbox", &signals);
    let start =
        Start { role, outside, listen, bundles, limit, reloader, paths, signals, handed, memory };
    match dataplane {
        Dataplane::User(ports) => user::run(start, ports, end),
        Dataplane::Kernel { foreign } => kernel::run(start, foreign, None),
    }
}

/// Runs both boxes of a site over the kernel's queues, until SIGTERM or SIGINT. SIGHUP reads
/// `file`, which `config` is from, again.
///
/// # Errors
/// As [`run`] and [`receivebox::run`].
pub fn run_site(config: SiteConfig, file: &Path, paths: &LogPaths) -> Result<(), Error> {
    let reloader = Reloader::new(file, &config);
    let SiteConfig { interface, foreign, listen, bundles, peers, limit } = config;
    let mut handed = Handed::take("site", &interface.name);
    if bundles.is_empty() {
        let config = ReceiveboxConfig { interface, listen, peers };
        return receivebox::run_alone("site", config, reloader, handed);
    }
    let signals = Signals::block_with_reload().map_err(Error::Signals)?;
    let receivebox = match peers.is_empty() {
        true => None,
        false => Some(Receivebox::attach(interface.clone(), peers, &mut handed)?),
    };
    let memory = PathMemory::open("site", &interface.name);
    let (outside, listen) = (interface, Some(listen));
    let (role, signals) = ("site", &signals);
    let start =
        Start { role, outside, listen, bundles, limit, reloader, paths, signals, handed, memory };
    kernel::run(start, foreign, receivebox)
}

/// What a sendbox over either dataplane starts with.
struct Start<'a> {
    /// The kind of box, by which another process recognises its predecessor.
    role: &'static str,
    outside: Netdev,
    listen: Option<SocketAddr>,
    bundles: Vec<BundleConfig>,
    /// The common limit of all bundles.
    limit: Option<Rate>,
    reloader: Reloader,
    paths: &'a LogPaths,
    signals: &'a Signals,
    /// What the process before this one handed over.
    handed: Handed,
    /// What the process before this one knew of the paths.
    memory: PathMemory,
}
