//! From a configuration to a running service, and to its end.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use forebay_config::ConfigError;
use forebay_guard::Guard;
use tokio::sync::oneshot;

use crate::config::{After, Announce, Config};
use crate::http::tls::{Acceptor, TlsError};
use crate::inputs::Fixed;
use crate::rounds::{self, rounds};
use crate::service::Service;
use crate::speaker::{SpeakError, Speaker, Told};
use crate::store::StoreError;
use crate::{clock, collect, http};

/// The subcommand by which the program that runs a service must call [`supervise`], with the journal and GoBGP's command
/// as its arguments: it is started again as the service's supervisor.
pub const SUPERVISOR: [&str; 2] = ["plan", "serve-supervisor"];
/// How long a start waits for the supervisor of one that died: it may be withdrawing.
const HANDOVER: Duration = Duration::from_secs(60);
/// How long the supervisor waits for a dead service's lock. The kernel lets it go with the process.
const DEAD: Duration = Duration::from_secs(1);

/// Why a service does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its configuration, or a file that it names.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Its announcing.
    #[error(transparent)]
    Speak(#[from] SpeakError),
    /// An address that it should listen at.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The system.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// Announcements are there that should have been withdrawn.
    #[error("{failed} announcements could not be withdrawn: `forebay plan withdraw --journal {}` tries again", journal.display())]
    Left {
        /// So many.
        failed: usize,
        /// The journal that knows of them.
        journal: PathBuf,
    },
}

impl Error {
    /// 2 if what the user wrote is wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Tls(_) => 2,
            _ => 1,
        }
    }
}

/// Stops a service in order.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Mutex<Stopping>>);

#[derive(Debug, Default)]
struct Stopping {
    asked: bool,
    sender: Option<oneshot::Sender<()>>,
}

impl Stop {
    /// Has it stop, now or as soon as it has started.
    pub fn stop(&self) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.asked = true;
        // Dropping it says the same.
        inside.sender = None;
    }

    fn receiver(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !inside.asked {
            inside.sender = Some(sender);
        }
        receiver
    }
}

/// Checks the configuration at `path`, and all files that it names, and touches nothing.
///
/// # Errors
/// As [`run`], for what can be told before it runs.
pub fn check(path: &Path) -> Result<(), Error> {
    prepare(path).map(drop)
}

type Prepared = (Config, Fixed, Vec<u32>, Option<Acceptor>);

fn prepare(path: &Path) -> Result<Prepared, Error> {
    let config = Config::load(path)?;
    let fixed = Fixed::read(&config.files)?;
    let names: Vec<&str> = fixed.file.providers.iter().map(|p| p.name.as_str()).collect();
    let numbers = config.providers_of(&names)?;
    let tls = config.tls.as_ref().map(Acceptor::new).transpose()?;
    Ok((config, fixed, numbers, tls))
}

/// Runs the service of the configuration at `path` until `stop` says so.
///
/// # Errors
/// If it cannot start, or cannot end as it should.
pub fn run(path: &Path, stop: &Stop) -> Result<(), Error> {
    let (config, fixed, numbers, tls) = prepare(path)?;
    let service = Arc::new(Service::new(config.clone(), fixed, numbers, clock::now())?);
    let listeners = http::listen(&config.listen).map_err(|(at, e)| Error::Listen(at, e))?;
    let addresses = config.flows.as_ref().map_or(&[][..], |flows| &flows.listen);
    let sockets = collect::bind(addresses).map_err(|(at, e)| Error::Listen(at, e))?;
    let speaker = match &config.announce {
        Some(a) => Some(Speaker::new(&a.journal, &a.gobgp, HANDOVER)?),
        None => None,
    };
    let mut guard = Watch::start(config.announce.as_ref())?;
    for socket in &sockets {
        if let Ok(address) = socket.local_addr() {
            tracing::info!("taking flow records at udp://{address}");
        }
    }
    for listener in &listeners {
        let scheme = if tls.is_some() { "https" } else { "http" };
        if let Ok(address) = listener.local_addr() {
            tracing::info!("serving at {scheme}://{address}");
        }
    }
    let (asking, asked) = rounds();
    let deaf = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let (planning, speaking, guarding) = (&service, speaker.as_ref(), &mut guard);
        // However this thread ends, the service does.
        let end = StopAtEnd(stop.clone());
        let planner = scope.spawn(move || {
            let _end = end;
            rounds::serve(planning, &asked, speaking, &mut || guarding.look());
        });
        for socket in &sockets {
            let (service, deaf) = (&service, &deaf);
            scope.spawn(move || {
                collect::receive(socket, deaf, &|from, octets, now| {
                    if let Some(collecting) = service.collecting() {
                        collecting.take(from, octets, now);
                    }
                });
            });
        }
        let served =
            http::serve(Arc::clone(&service), asking.clone(), listeners, tls, stop.receiver());
        asking.stop();
        deaf.store(true, Ordering::Relaxed);
        let planned = planner.join();
        served.and_then(|()| {
            planned.map_err(|_| io::Error::other("the thread that plans has failed"))
        })
    });
    ended.map_err(|e| Error::System("serving", e))?;
    let left = match (&config.announce, &speaker) {
        (Some(a), Some(speaker)) if a.on_exit == After::Withdraw => {
            let told = speaker.speak(&[], &mut crate::service::say)?;
            (told.failed > 0).then(|| (told.failed, a.journal.clone()))
        }
        _ => None,
    };
    guard.dismiss();
    match left {
        Some((failed, journal)) => Err(Error::Left { failed, journal }),
        None => Ok(()),
    }
}

struct StopAtEnd(Stop);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The supervisor, where there is to be one.
struct Watch {
    guard: Option<Guard>,
    arguments: Vec<std::ffi::OsString>,
}

impl Watch {
    fn start(announce: Option<&Announce>) -> Result<Self, Error> {
        let Some(announce) = announce.filter(|a| a.on_death == After::Withdraw) else {
            return Ok(Self { guard: None, arguments: Vec::new() });
        };
        let mut arguments: Vec<_> = SUPERVISOR.iter().map(|s| OsStr::new(s).to_owned()).collect();
        for (name, path) in [("--journal", &announce.journal), ("--gobgp", &announce.gobgp)] {
            arguments.extend([OsStr::new(name).to_owned(), path.clone().into_os_string()]);
        }
        let guard = guard(&arguments).map_err(|e| Error::System("starting the supervisor", e))?;
        Ok(Self { guard: Some(guard), arguments })
    }

    /// Starts it again if it has ended.
    fn look(&mut self) {
        let Some(there) = &mut self.guard else { return };
        if there.is_alive() {
            return;
        }
        tracing::warn!("the supervisor ended, and is started again");
        match guard(&self.arguments) {
            Ok(new) => *there = new,
            Err(e) => tracing::error!("the supervisor cannot be started: {e}"),
        }
    }

    fn dismiss(self) {
        if let Some(Err(e)) = self.guard.map(Guard::dismiss) {
            tracing::warn!("ending the supervisor: {e}");
        }
    }
}

fn guard(arguments: &[std::ffi::OsString]) -> io::Result<Guard> {
    let program = std::env::current_exe()?;
    Guard::start(program.as_os_str(), arguments)
}

/// The supervisor itself: waits until the service is dead, and withdraws what it has announced, unless another has begun
/// to go on with that.
///
/// # Errors
/// If it cannot wait, or something cannot be withdrawn.
pub fn supervise(journal: &Path, gobgp: &Path) -> Result<Told, Error> {
    forebay_guard::wait().map_err(|e| Error::System("watching the service", e))?;
    let speaker = match Speaker::new(journal, gobgp, DEAD) {
        Err(SpeakError::InUse(_)) => return Ok(Told::default()),
        speaker => speaker?,
    };
    let told = speaker.speak(&[], &mut crate::service::say)?;
    match told.failed {
        0 => Ok(told),
        failed => Err(Error::Left { failed, journal: journal.to_owned() }),
    }
}
