//! The content provider's side: fetches hints from an ISP's service, says what would move, carries
//! it out, and reports entries that cannot be used.
//!
//! Start at [`Client`]. [`config`] has its settings, [`http`] asks the service, and [`follow`]
//! decides what to do, without sockets, files or clocks.

pub mod config;
pub mod follow;
pub mod http;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::ConfigError;
use forebay_plan::hints::announce::{Step, steps};
use serde_json::Value;

use crate::files::replace;
use crate::speaker::{self, AnnounceError, AnnounceOutcome, Speaker};
use config::Config;
use follow::{Change, Followed, Given, Hints};
use http::{FetchError, Service};

/// The largest file of hints that is read, in bytes.
const MAX_FILE: forebay_units::Bytes = forebay_plan::input::MAX_FILE;

/// Why hints could not be fetched or followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration, or the file of hints in force, is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The service gives no answer that can be used.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Routes cannot be announced or withdrawn.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
    /// The file of hints cannot be written.
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, io::Error),
}

impl Error {
    /// Returns the exit status: 2 if the user's files are wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Config(_)) { 2 } else { 1 }
    }
}

/// What the hints of a service ask for, beside what is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The hints of the service.
    pub hints: Hints,
    /// What changes with them.
    pub changes: Vec<Change>,
    /// The hints that can be followed, and those that cannot.
    pub followed: Followed,
    /// The changes of BGP routes.
    pub steps: Vec<Step>,
    /// The program to report, if the service does not have it yet.
    pub program: Option<Value>,
}

/// What was carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// The outcome of the changes of routes, if routes are fed to GoBGP.
    pub announced: Option<AnnounceOutcome>,
    /// Whether a program was reported, or why the service refused it.
    pub reported: Option<Result<(), String>>,
}

/// A client of one ISP's service.
#[derive(Debug)]
pub struct Client {
    config: Config,
    service: Service,
}

impl Client {
    /// Creates a client from the configuration at `path`.
    ///
    /// # Errors
    /// If the configuration or a file that it names is invalid.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let config = Config::load(path)?;
        let service = Service::new(&config.access)?;
        Ok(Self { config, service })
    }

    /// Waits for no answer of the service any more once `stopped` returns true.
    pub fn stop_when(&mut self, stopped: impl Fn() -> bool + Send + Sync + 'static) {
        self.service.stop_when(stopped);
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Fetches the hints and says what they change; changes nothing.
    ///
    /// # Errors
    /// If the service gives no valid answer, or a file cannot be read.
    pub fn fetch(&self) -> Result<Fetched, Error> {
        let hints = follow::hints(&self.service.get("/v1/hints")?).map_err(FetchError::Answer)?;
        let followed = follow::follow(&hints, &self.config);
        let last = self.last()?;
        let program = match follow::usable_entries(&self.config) {
            None => None,
            Some(usable) => {
                let (view, present) =
                    (self.service.get("/v1/vswitch")?, self.service.get("/v1/program")?);
                follow::program(&view, &present, &usable).map_err(FetchError::Answer)?
            }
        };
        Ok(Fetched {
            changes: follow::changes(&last, &followed.hints),
            steps: self.steps(&followed)?,
            followed,
            hints,
            program,
        })
    }

    fn steps(&self, followed: &Followed) -> Result<Vec<Step>, Error> {
        match &self.config.gobgp {
            Some(gobgp) => Ok(steps(&speaker::read(&gobgp.journal)?, &followed.routes)),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the hints in force, as the file has them.
    fn last(&self) -> Result<Vec<Given>, Error> {
        let path = &self.config.out;
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = forebay_config::read_text(path, MAX_FILE)?;
        let read: Result<Hints, _> = serde_json::from_str(&text);
        read.map(|hints| hints.hints).map_err(|e| {
            let message = format!("is no file of hints in force: {e}");
            let (file, line) = (path.clone(), Some(e.line()));
            ConfigError { file, line, key: String::new(), message }.into()
        })
    }

    /// Carries out what was fetched: feeds the routes to GoBGP, writes the file, and reports
    /// entries that cannot be used. Calls `report` with each step and the cause if it failed.
    ///
    /// # Errors
    /// If the journal or the file cannot be written.
    pub fn apply(
        &self,
        fetched: &Fetched,
        report: &mut dyn FnMut(&Step, Option<&str>),
    ) -> Result<Applied, Error> {
        let announced = self.announce(&fetched.followed, report)?;
        self.write(&Hints { hints: fetched.followed.hints.clone(), ..fetched.hints.clone() })?;
        let put = |program: &Value| {
            let put = self.service.put("/v1/program", &program.to_string());
            put.map(drop).map_err(|e| e.to_string())
        };
        Ok(Applied { announced, reported: fetched.program.as_ref().map(put) })
    }

    /// Withdraws all routes, and empties the file.
    ///
    /// # Errors
    /// As [`Client::apply`].
    pub fn withdraw(
        &self,
        report: &mut dyn FnMut(&Step, Option<&str>),
    ) -> Result<Option<AnnounceOutcome>, Error> {
        let announced = self.announce(&Followed::default(), report)?;
        self.write(&Hints::default())?;
        Ok(announced)
    }

    fn announce(
        &self,
        followed: &Followed,
        report: &mut dyn FnMut(&Step, Option<&str>),
    ) -> Result<Option<AnnounceOutcome>, Error> {
        let Some(gobgp) = &self.config.gobgp else { return Ok(None) };
        let speaker = Speaker::new(&gobgp.journal, &gobgp.command, Duration::ZERO)?;
        Ok(Some(speaker.announce(&followed.routes, report)?))
    }

    fn write(&self, hints: &Hints) -> Result<(), Error> {
        let path = &self.config.out;
        let text = serde_json::to_string_pretty(hints).unwrap_or_default() + "\n";
        replace(path, &text).map_err(|e| Error::Write(path.clone(), e))
    }
}
