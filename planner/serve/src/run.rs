//! Starts a service from its configuration, and stops it.

use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay_config::ConfigError;
use forebay_guard::Guard;
pub use forebay_web::Stop;

use crate::config::{After, Announce, Config};
use crate::history::writer::{self, Database};
use crate::http::tls::{Acceptor, TlsError};
use crate::inputs::Fixed;
use crate::rounds::rounds;
use crate::service::Service;
use crate::speaker::{AnnounceError, AnnounceOutcome, Speaker};
use crate::store::StoreError;
use crate::{bmp, clock, collect, http};

/// The subcommand with which a service starts its program again as the supervisor. The program must
/// then call [`supervise`] with the journal and GoBGP's command from the arguments.
pub const SUPERVISOR: &str = "serve-supervisor";
/// The time that a start waits for the supervisor of a service that died, which may be withdrawing.
const HANDOVER: Duration = Duration::from_secs(60);
/// The time that the supervisor waits for the lock of a dead service, which the kernel releases
/// with the process.
const RELEASE: Duration = Duration::from_secs(1);

/// Why a service does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration or a file that it names is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The TLS configuration is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The password of the database, or a file for TLS with it, cannot be used.
    #[error("clickhouse: {0}")]
    Database(String),
    /// Announcements cannot be made or withdrawn.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
    /// The service cannot listen at an address.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// A system call failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// Some announcements could not be withdrawn.
    #[error("{failed} announcements could not be withdrawn: try again with `forebay plan withdraw --journal {}`", journal.display())]
    Left {
        /// The number of announcements that remain.
        failed: usize,
        /// The journal that lists them.
        journal: PathBuf,
    },
}

impl Error {
    /// Returns the exit status: 2 if the user's files are wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Tls(_) | Self::Database(_) => 2,
            _ => 1,
        }
    }
}

/// Checks the configuration at `path` and all files that it names; changes nothing.
///
/// # Errors
/// As for [`run`], for everything that can be checked before it runs.
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

/// Runs the service of the configuration at `path` until `stop` ends it.
///
/// # Errors
/// If the service cannot start, or cannot end in an orderly way.
pub fn run(path: &Path, stop: &Stop) -> Result<(), Error> {
    Ready::new(path)?.run(stop)
}

/// A service that has read its files and has its sockets and locks, and does nothing yet. To begin
/// may take long, as for large files, and may be ended at any moment.
#[derive(Debug)]
pub struct Ready {
    config: Config,
    service: Arc<Service>,
    listeners: Vec<TcpListener>,
    tls: Option<Acceptor>,
    /// The sockets for flow records.
    sockets: Vec<UdpSocket>,
    /// The listeners for routers.
    routers: Vec<TcpListener>,
    speaker: Option<Speaker>,
    database: Option<Database>,
}

impl Ready {
    /// Begins the service of the configuration at `path`.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let (config, fixed, numbers, tls) = prepare(path)?;
        let service = Arc::new(Service::new(config.clone(), fixed, numbers, clock::now())?);
        let listen = |(at, e)| Error::Listen(at, e);
        let listeners = forebay_web::listen(&config.listen).map_err(listen)?;
        let addresses = config.flows.as_ref().map_or(&[][..], |flows| &flows.listen);
        let sockets = collect::bind(addresses).map_err(listen)?;
        let addresses = config.bmp.as_ref().map_or(&[][..], |bmp| &bmp.listen);
        let routers = bmp::bind(addresses).map_err(listen)?;
        let speaker = match &config.announce {
            Some(a) => Some(Speaker::new(&a.journal, &a.gobgp, HANDOVER)?),
            None => None,
        };
        let database = config.clickhouse.as_ref().map(|c| Database::new(c, clock::now()));
        let database = database.transpose().map_err(|e| Error::Database(e.to_string()))?;
        Ok(Self { config, service, listeners, tls, sockets, routers, speaker, database })
    }

    /// Runs the service until `stop` ends it.
    ///
    /// # Errors
    /// If it cannot serve, or cannot end in an orderly way.
    pub fn run(self, stop: &Stop) -> Result<(), Error> {
        let Self { config, service, listeners, tls, sockets, routers, speaker, database } = self;
        let mut guard = Supervisor::start(config.announce.as_ref())?;
        for socket in &sockets {
            if let Ok(address) = socket.local_addr() {
                tracing::info!("taking flow records at udp://{address}");
            }
        }
        for listener in &routers {
            if let Ok(address) = listener.local_addr() {
                tracing::info!("taking routes at bmp://{address}");
            }
        }
        for listener in &listeners {
            let scheme = if tls.is_some() { "https" } else { "http" };
            if let Ok(address) = listener.local_addr() {
                tracing::info!("serving at {scheme}://{address}");
            }
        }
        let (rounds, requests) = rounds();
        let stopped = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let (planning, speaking, guarding) = (&service, speaker.as_ref(), &mut guard);
            // The service ends with this thread, however it ends.
            let end = stop.at_end();
            let planner = scope.spawn(move || {
                let _end = end;
                crate::rounds::serve(planning, &requests, speaking, &mut || guarding.check());
            });
            for socket in &sockets {
                let (service, stopped) = (&service, &stopped);
                scope.spawn(move || {
                    collect::receive(socket, stopped, &|from, octets, now| {
                        if let Some(collecting) = service.collecting() {
                            collecting.take(from, octets, now);
                        }
                    });
                });
            }
            if let (Some(history), Some(database)) = (service.history(), &database) {
                let stopped = &stopped;
                scope.spawn(move || writer::write(database, history, stopped));
            }
            #[cfg(feature = "kafka")]
            if let Some(kafka) = &config.kafka {
                let (service, stopped) = (&service, &stopped);
                scope.spawn(move || relayed(kafka, service, stopped));
            }
            if let Some(learning) = service.learning() {
                bmp::serve(scope, &routers, learning, bmp::Steady::start(), &stopped);
            }
            let served = {
                let http = http::Http { service: Arc::clone(&service), rounds: rounds.clone() };
                let hosts = config.hosts.clone();
                forebay_web::serve(Arc::new(http), listeners, tls, hosts, stop.receiver())
            };
            rounds.stop();
            stopped.store(true, Ordering::Relaxed);
            let planned = planner.join();
            served.and_then(|()| {
                planned
                    .map_err(|_| io::Error::other("the planning thread has panicked: see the log"))
            })
        });
        ended.map_err(|e| Error::System("cannot serve", e))?;
        let left = match (&config.announce, &speaker) {
            (Some(a), Some(speaker)) if a.on_exit == After::Withdraw => {
                let outcome = speaker.announce(&[], &mut crate::service::log_step)?;
                (outcome.failed > 0).then(|| (outcome.failed, a.journal.clone()))
            }
            _ => None,
        };
        guard.dismiss();
        match left {
            Some((failed, journal)) => Err(Error::Left { failed, journal }),
            None => Ok(()),
        }
    }
}

/// Reads flow records from Kafka until `stopped` is set.
#[cfg(feature = "kafka")]
fn relayed(settings: &crate::config::Kafka, service: &Arc<Service>, stopped: &AtomicBool) {
    let feed = service.collecting().and_then(|collecting| collecting.feed());
    let Some(feed) = feed else { return };
    let (taking, relay) = (Arc::clone(service), settings.relay);
    let take: crate::kafka::client::Take = Arc::new(move |messages| {
        if let Some(collecting) = taking.collecting() {
            let now = i64::try_from(clock::now()).unwrap_or(i64::MAX);
            collecting.relayed(relay, messages, now);
        }
    });
    tracing::info!("reading flow records of {} from Kafka", relay.name());
    if let Err(e) = crate::kafka::client::read(settings, feed, stopped, &take) {
        tracing::error!("cannot read from Kafka: {e}");
        feed.fail(&e.to_string());
    }
}

/// The supervisor process, if the configuration wants one.
struct Supervisor {
    guard: Option<Guard>,
    arguments: Vec<std::ffi::OsString>,
}

impl Supervisor {
    fn start(announce: Option<&Announce>) -> Result<Self, Error> {
        let Some(announce) = announce.filter(|a| a.on_death == After::Withdraw) else {
            return Ok(Self { guard: None, arguments: Vec::new() });
        };
        let mut arguments = vec![OsStr::new(SUPERVISOR).to_owned()];
        for (name, path) in [("--journal", &announce.journal), ("--gobgp", &announce.gobgp)] {
            arguments.extend([OsStr::new(name).to_owned(), path.clone().into_os_string()]);
        }
        let guard =
            guard(&arguments).map_err(|e| Error::System("cannot start the supervisor", e))?;
        Ok(Self { guard: Some(guard), arguments })
    }

    /// Starts the supervisor again if it has ended.
    fn check(&mut self) {
        let Some(there) = &mut self.guard else { return };
        if there.is_alive() {
            return;
        }
        tracing::warn!("the supervisor has ended; starting it again");
        match guard(&self.arguments) {
            Ok(new) => *there = new,
            Err(e) => tracing::error!("cannot start the supervisor: {e}"),
        }
    }

    fn dismiss(self) {
        if let Some(Err(e)) = self.guard.map(Guard::dismiss) {
            tracing::warn!("cannot stop the supervisor: {e}");
        }
    }
}

fn guard(arguments: &[std::ffi::OsString]) -> io::Result<Guard> {
    let program = std::env::current_exe()?;
    Guard::start(program.as_os_str(), arguments)
}

/// Runs the supervisor: waits until the service is dead, and withdraws its announcements, unless a
/// new service has taken over.
///
/// # Errors
/// If it cannot wait, or an announcement cannot be withdrawn.
pub fn supervise(journal: &Path, gobgp: &Path) -> Result<AnnounceOutcome, Error> {
    forebay_guard::wait().map_err(|e| Error::System("cannot watch the service", e))?;
    let speaker = match Speaker::new(journal, gobgp, RELEASE) {
        Err(AnnounceError::InUse(_)) => return Ok(AnnounceOutcome::default()),
        speaker => speaker?,
    };
    let outcome = speaker.announce(&[], &mut crate::service::log_step)?;
    match outcome.failed {
        0 => Ok(outcome),
        failed => Err(Error::Left { failed, journal: journal.to_owned() }),
    }
}
