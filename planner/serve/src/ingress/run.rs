//! Runs the client: asks the service, decides, and changes the kernel, until it is stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use forebay_config::ConfigError;
use forebay_guard::Guard;
use forebay_system::private;

use super::answer::{PATHS, Paths, VERSION, Version};
use super::change::{Change, Target, changes};
use super::config::Config;
use super::decide::Controller;
use super::linux::{Linux, Outcome};
use crate::command::CommandError;
use crate::neighbour::http::{FetchError, Service};

/// The subcommand with which the client starts its program again as the supervisor. The program
/// must then call [`supervise`] with the configuration from the arguments.
pub const SUPERVISOR: &str = "paths-supervisor";
/// The time after which the kernel is compared with the plan again, although neither has changed.
const CHECK: Duration = Duration::from_secs(5);
/// The time that a start, or the supervisor, waits for the lock of a process that ends.
const RELEASE: Duration = Duration::from_secs(1);
/// The interval at which a lock is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// Why paths cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The service gives no answer that can be used.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The kernel's routes cannot be read or changed.
    #[error(transparent)]
    Linux(#[from] CommandError),
    /// Another process has the configuration.
    #[error("{0} is in use by another running forebay process: stop that first")]
    InUse(PathBuf),
    /// A system call failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// Some routes could not be removed.
    #[error("{0} changes failed: try again with `forebay plan paths --withdraw`")]
    Left(usize),
}

impl Error {
    /// Returns the exit status: 2 if the user's files are wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Config(_)) { 2 } else { 1 }
    }
}

/// What happens while the client runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change was made.
    Done(Change),
    /// A change failed, for this cause. It is tried again every few seconds.
    Failed(Change, String),
    /// Something else is wrong; the same error is told once.
    Trouble(String),
}

/// What would change, and why certain prefixes are not steered.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked {
    /// The plan of the service.
    pub plan: Paths,
    /// What is wanted.
    pub target: Target,
    /// The changes, in their order.
    pub changes: Vec<Change>,
}

/// Fetches the plan and returns what would change; changes nothing.
///
/// # Errors
/// If the service gives no valid answer, or the kernel cannot be read.
pub fn look(config: &Config, linux: &Linux) -> Result<Looked, Error> {
    let plan = Asker::new(config)?.paths()?;
    let mut controller = Controller::new(config.clone(), 0);
    controller.take(plan.clone(), 0);
    let reachable = linux.reachable(&controller.segments())?;
    let target = controller.target(&reachable, 0).unwrap_or_default();
    let state = linux.read(config.protocol)?;
    Ok(Looked { plan, changes: changes(&state, &target, config.first), target })
}

/// Removes all routes of this program from the kernel.
///
/// # Errors
/// If another process carries out paths with this configuration, or the kernel cannot be changed.
pub fn withdraw(
    path: &Path,
    config: &Config,
    linux: &Linux,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let _lock = lock(path)?;
    remove(config, linux, "the operator withdraws everything", tell)
}

/// Carries out the paths of the configuration at `path` until `stopped`, and then removes all its
/// routes. With `guarded`, a second process removes them if this one dies.
///
/// # Errors
/// If it cannot start, or cannot remove its routes at the end.
pub fn watch(
    path: &Path,
    config: &Config,
    linux: &Linux,
    guarded: bool,
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let _lock = lock(path)?;
    let asker = Asker::new(config)?;
    let mut guard = match guarded {
        true => Some(guard(path)?),
        false => None,
    };
    let start = Instant::now();
    let (sender, answers) = sync_channel(1);
    // The thread may be waiting for an answer when this one ends, and is not waited for.
    let every = config.every;
    thread::spawn(move || asker.run(every, &sender));
    let mut told = Told::new(tell);
    let mut last: Option<(Target, Duration)> = None;
    let mut controller = Controller::new(config.clone(), 0);
    let mut reachable = BTreeSet::new();
    while !stopped() {
        take(&mut controller, &answers, start, every, &mut told);
        if let Some(there) = &mut guard
            && !there.is_alive()
        {
            told.trouble(
                Place::Supervisor,
                "the supervisor has ended; starting it again".to_owned(),
            );
            *there = self::guard(path)?;
        }
        check(linux, &controller, &mut reachable, &mut told);
        let now = start.elapsed();
        let Some(target) = controller.target(&reachable, millis(now)) else { continue };
        let same = last.as_ref().is_some_and(|(old, at)| *old == target && now < *at + CHECK);
        if !same {
            match linux.reach(&target, config) {
                Ok(outcome) => {
                    told.well(Place::Kernel);
                    told.outcome(outcome);
                }
                Err(e) => told.trouble(Place::Kernel, e.to_string()),
            }
            last = Some((target, now));
        }
    }
    let ended = remove(config, linux, "the client was stopped", told.tell);
    if let Some(Err(e)) = guard.map(Guard::dismiss) {
        told.trouble(Place::Supervisor, format!("cannot stop the supervisor: {e}"));
    }
    ended
}

/// Runs the supervisor: waits until the client is dead, and removes its routes, unless a new one
/// has taken over.
///
/// # Errors
/// If it cannot wait, or the kernel cannot be changed.
pub fn supervise(path: &Path, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let config = Config::load(path)?;
    forebay_guard::wait().map_err(|e| Error::System("cannot watch the client", e))?;
    let _lock = match lock(path) {
        Err(Error::InUse(_)) => return Ok(()),
        lock => lock?,
    };
    remove(&config, &Linux::default(), "the client has died", tell)
}

fn guard(path: &Path) -> Result<Guard, Error> {
    let arguments = [SUPERVISOR.as_ref(), "--config".as_ref(), path.as_os_str()];
    let program = std::env::current_exe();
    program
        .and_then(|program| Guard::start(program.as_os_str(), &arguments))
        .map_err(|e| Error::System("cannot start the supervisor", e))
}

fn remove(
    config: &Config,
    linux: &Linux,
    reason: &str,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let target = Target { otherwise: reason.to_owned(), ..Target::default() };
    let outcome = linux.reach(&target, config)?;
    let failed = outcome.failed.len();
    Told::new(tell).outcome(outcome);
    if failed > 0 { Err(Error::Left(failed)) } else { Ok(()) }
}

/// Locks the configuration, so that no other process changes the same routes.
fn lock(path: &Path) -> Result<File, Error> {
    let fail = |e| Error::System("cannot lock the configuration", e);
    let file = File::open(path).map_err(fail)?;
    let end = Instant::now() + RELEASE;
    while !private::lock(&file, false).map_err(fail)? {
        if Instant::now() >= end {
            return Err(Error::InUse(path.to_owned()));
        }
        thread::sleep(RETRY);
    }
    Ok(file)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An answer of the service, with the time of its arrival.
type Answer = (Instant, Result<Option<Paths>, FetchError>);

/// Waits for an answer, at most until the present one expires, and takes it.
fn take(
    controller: &mut Controller,
    answers: &Receiver<Answer>,
    start: Instant,
    every: Duration,
    told: &mut Told<'_>,
) {
    let left = controller.expiry().saturating_sub(millis(start.elapsed()));
    // When it has expired already, routes and segments are checked at the usual interval.
    let wait = if left == 0 { every } else { every.min(Duration::from_millis(left)) };
    match answers.recv_timeout(wait) {
        Ok((at, Ok(plan))) => {
            told.well(Place::Service);
            let at = millis(at.saturating_duration_since(start));
            match plan {
                Some(plan) => controller.take(plan, at),
                None => controller.confirm(at),
            }
        }
        Ok((_, Err(e))) => told.trouble(Place::Service, e.to_string()),
        Err(RecvTimeoutError::Timeout) => {}
        // The thread has panicked: the hold time decides. This loop must not spin.
        Err(RecvTimeoutError::Disconnected) => thread::sleep(wait),
    }
}

/// Checks which segments are reachable. If that fails, what was known counts.
fn check(
    linux: &Linux,
    controller: &Controller,
    reachable: &mut BTreeSet<Ipv6Addr>,
    told: &mut Told<'_>,
) {
    match linux.reachable(&controller.segments()) {
        Ok(found) => *reachable = found,
        Err(e) => told.trouble(Place::Kernel, e.to_string()),
    }
}

/// Where a trouble is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Service,
    Kernel,
    Supervisor,
}

/// Tells events, and the same trouble of a place once.
struct Told<'a> {
    tell: &'a mut dyn FnMut(Event),
    troubles: BTreeMap<Place, String>,
}

impl<'a> Told<'a> {
    fn new(tell: &'a mut dyn FnMut(Event)) -> Self {
        Self { tell, troubles: BTreeMap::new() }
    }

    fn outcome(&mut self, outcome: Outcome) {
        for change in outcome.done {
            (self.tell)(Event::Done(change));
        }
        for (change, why) in outcome.failed {
            (self.tell)(Event::Failed(change, why));
        }
    }

    fn trouble(&mut self, place: Place, what: String) {
        if self.troubles.get(&place) != Some(&what) {
            (self.tell)(Event::Trouble(what.clone()));
            self.troubles.insert(place, what);
        }
    }

    fn well(&mut self, place: Place) {
        self.troubles.remove(&place);
    }
}

/// Asks the service for the plan.
struct Asker {
    service: Service,
}

impl Asker {
    fn new(config: &Config) -> Result<Self, FetchError> {
        Ok(Self { service: Service::new(&config.access)? })
    }

    fn paths(&self) -> Result<Paths, FetchError> {
        read(self.service.get(PATHS)?)
    }

    /// Sends an answer every so often, until nothing takes them.
    fn run(&self, every: Duration, sender: &SyncSender<Answer>) {
        let mut known = None;
        loop {
            let asked = self.service.get(VERSION).and_then(read::<Version>).and_then(|now| {
                if known.as_ref() == Some(&now.version) {
                    return Ok(None);
                }
                let plan = self.paths()?;
                known = Some(plan.version.clone());
                Ok(Some(plan))
            });
            if sender.send((Instant::now(), asked)).is_err() {
                return;
            }
            thread::sleep(every);
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(answer: serde_json::Value) -> Result<T, FetchError> {
    serde_json::from_value(answer)
        .map_err(|e| FetchError::Answer(format!("the paths cannot be read: {e}")))
}
