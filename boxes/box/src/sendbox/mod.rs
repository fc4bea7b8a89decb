//! The sendbox: queues each bundle, and sends it at the rate of its control loop. The queues are
//! between two ports of its own ([`user`]) or in the kernel ([`kernel`]).
//!
//! The control loops are the same over both ([`bundles`]). They get departures, feedback and
//! backlogs, and return rates.

mod bundle;
mod bundles;
mod classifier;
mod departures;
mod kernel;
mod link_headers;
mod logs;
#[cfg(test)]
mod pipeline;
mod rules;
mod tree;
mod user;
mod waits;

use std::path::Path;
use std::thread;

use forebay_dataplane::Netdev;
use forebay_dataplane::kernel::LoadedEgress;
use forebay_system::clock;
use forebay_units::{Nanos, Rate};

pub use self::logs::LogPaths;
pub use self::tree::plan;
pub(crate) use self::user::chunks;

use crate::Error;
use crate::channel::Channel;
use crate::config::{BundleConfig, Dataplane, ReceiveboxConfig, SendboxConfig, SiteConfig};
use crate::forward::WireEnd;
use crate::handover::Handed;
use crate::memory::PathMemory;
use crate::receivebox::{self, Receivebox};
use crate::reload::Reloader;
use crate::resolver::Resolver;
use crate::signals::Signals;

/// The time between two settings of a bundle's rate (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);

/// How often the loop that sends feedback checks whether the programs are loaded.
const SHORT_WAIT: Nanos = Nanos::from_millis(2);

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
    let addresses = config.bundles.iter().map(|bundle| &bundle.receivebox);
    let resolver = Resolver::start(clock::now(), config.listen, addresses);
    let signals = Signals::block_with_reload().map_err(Error::Signals)?;
    let reloader = Reloader::new(file, &config);
    let mut handed = Handed::take("sendbox", &config.outside.name);
    let memory = PathMemory::open("sendbox", &config.outside.name);
    let SendboxConfig { outside, dataplane, listen, bundles, limit } = config;
    let channel = listen.map(|at| Channel::bind_or_take(at, handed.socket(at))).transpose()?;
    let (role, signals) = ("sendbox", &signals);
    let start = Start {
        role,
        outside,
        channel,
        bundles,
        limit,
        reloader,
        resolver,
        paths,
        signals,
        handed,
        memory,
    };
    match dataplane {
        Dataplane::User(ports) => user::run(start, ports, end),
        Dataplane::Kernel { foreign } => {
            let loaded = LoadedEgress::load(&start.outside)?;
            kernel::run(start, foreign, None, loaded)
        }
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
    let addresses = bundles.iter().map(|bundle| &bundle.receivebox);
    let addresses = addresses.chain(peers.iter().map(|peer| &peer.sendbox));
    let resolver = Resolver::start(clock::now(), Some(listen), addresses);
    let signals = Signals::block_with_reload().map_err(Error::Signals)?;
    let memory = PathMemory::open("site", &interface.name);
    let channel = Channel::bind_or_take(listen, handed.socket(listen))?;
    // The other sites wait for feedback. It goes out while the programs of the sendbox are loaded.
    let (receivebox, loaded) = thread::scope(|scope| -> Result<_, Error> {
        let loading = scope.spawn(|| LoadedEgress::load(&interface));
        let mut receivebox = match peers.is_empty() {
            true => None,
            false => Some(Receivebox::attach(interface.clone(), peers, &mut handed)?),
        };
        while let Some(receivebox) = receivebox.as_mut().filter(|_| !loading.is_finished()) {
            receivebox.serve_until(clock::now() + SHORT_WAIT, &channel)?;
        }
        let loaded = loading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((receivebox, loaded))
    })?;
    let (outside, channel) = (interface, Some(channel));
    let (role, signals) = ("site", &signals);
    let start = Start {
        role,
        outside,
        channel,
        bundles,
        limit,
        reloader,
        resolver,
        paths,
        signals,
        handed,
        memory,
    };
    kernel::run(start, foreign, receivebox, loaded)
}

/// What a sendbox over either dataplane starts with.
struct Start<'a> {
    /// The kind of box, by which another process recognises its predecessor.
    role: &'static str,
    outside: Netdev,
    /// The channel to the receiveboxes; `None` without bundles.
    channel: Option<Channel>,
    bundles: Vec<BundleConfig>,
    /// The common limit of all bundles.
    limit: Option<Rate>,
    reloader: Reloader,
    resolver: Resolver,
    paths: &'a LogPaths,
    signals: &'a Signals,
    /// What the process before this one handed over.
    handed: Handed,
    /// What the process before this one knew of the paths.
    memory: PathMemory,
}
