//! Announces routes with GoBGP's command (docs/decisions/0027-gobgp-by-its-command.md).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_config::{ConfigError, read_text};
use forebay_plan::hints::announce::{Journal, JournalEntry, Step, arguments, steps};
use forebay_plan::hints::bgp::Announcement;
use forebay_plan::input::MAX_FILE;

use crate::files::replace;
use crate::lock::Lock;

/// The time after which a speaker that has not answered counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which the command is checked for its end.
const POLL: Duration = Duration::from_millis(10);

/// Why nothing could be announced or withdrawn.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] ConfigError),
    /// The journal cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path of the journal.
        path: PathBuf,
        /// The cause of the failure.
        source: io::Error,
    },
    /// Another process is using the journal.
    #[error("{0} is in use by another running forebay process: stop that first")]
    InUse(PathBuf),
}

/// Announces routes through BGP speakers and keeps a journal. It locks the journal against other
/// processes.
#[derive(Debug)]
pub struct Speaker {
    journal: PathBuf,
    gobgp: PathBuf,
    _lock: Lock,
}

/// The outcome of announcing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnounceOutcome {
    /// The number of steps that succeeded.
    pub done: usize,
    /// The number of steps that failed; they stay in the journal.
    pub failed: usize,
}

impl Speaker {
    /// Creates a speaker that keeps `journal` and calls `gobgp`. It waits up to `patience` for
    /// another process that has the journal.
    ///
    /// # Errors
    /// If the other process keeps the journal, or it cannot be locked.
    pub fn new(journal: &Path, gobgp: &Path, patience: Duration) -> Result<Self, AnnounceError> {
        let lock = Lock::of(journal, patience).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => AnnounceError::InUse(journal.to_owned()),
            _ => AnnounceError::Write { path: journal.to_owned(), source },
        })?;
        Ok(Self { journal: journal.to_owned(), gobgp: gobgp.to_owned(), _lock: lock })
    }

    /// Announces what is `wanted`, withdraws what is not, and calls `report` with each step and the
    /// cause if it failed.
    ///
    /// # Errors
    /// If the journal cannot be read or written. In that case nothing more is announced, since it
    /// could not be withdrawn.
    pub fn announce(
        &self,
        wanted: &[Announcement],
        report: &mut dyn FnMut(&Step, Option<&str>),
    ) -> Result<AnnounceOutcome, AnnounceError> {
        let mut journal = read(&self.journal)?;
        let steps = steps(&journal, wanted);
        if steps.is_empty() {
            return Ok(AnnounceOutcome::default());
        }
        let unwritten = |source| AnnounceError::Write { path: self.journal.clone(), source };
        // The rewritten journal is short, and has no incomplete line from a crash.
        replace(&self.journal, &journal.text()).map_err(unwritten)?;
        let file = OpenOptions::new().append(true).open(&self.journal).map_err(unwritten)?;
        let mut outcome = AnnounceOutcome::default();
        for step in &steps {
            if let Step::Announce(a) = step {
                append(&file, &mut journal, &JournalEntry::Begun(a.clone())).map_err(unwritten)?;
            }
            let no_speaker = || Err("has no speaker".to_owned());
            match arguments(step).map_or_else(no_speaker, |a| run(&self.gobgp, &a)) {
                Ok(()) => {
                    append(&file, &mut journal, &JournalEntry::Done(step.clone()))
                        .map_err(unwritten)?;
                    outcome.done += 1;
                    report(step, None);
                }
                Err(why) => {
                    outcome.failed += 1;
                    report(step, Some(&why));
                }
            }
        }
        Ok(outcome)
    }
}

/// Reads a journal, which is empty if the file does not exist.
///
/// # Errors
/// If the file is not a journal.
pub fn read(path: &Path) -> Result<Journal, ConfigError> {
    match path.exists() {
        true => Journal::read(path, &read_text(path, MAX_FILE)?),
        false => Ok(Journal::default()),
    }
}

/// Describes a step for the log.
pub fn describe(step: &Step) -> String {
    let (verb, a) = match step {
        Step::Announce(a) => ("announce", a),
        Step::Withdraw(a) => ("withdraw", a),
    };
    format!("{verb} {} to {} at {}", a.prefix, a.neighbour, a.entry)
}

fn append(mut file: &File, journal: &mut Journal, entry: &JournalEntry) -> io::Result<()> {
    let written = file.write_all(entry.text().as_bytes()).and_then(|()| file.sync_data());
    journal.record(entry);
    written
}

/// Runs GoBGP's command; the error is its output.
fn run(gobgp: &Path, arguments: &[String]) -> Result<(), String> {
    let mut command = Command::new(gobgp);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The command must not finish after the supervisor has withdrawn its route.
    let mut child = forebay_guard::bind(&mut command)
        .spawn()
        .map_err(|e| format!("cannot run {}: {e}", gobgp.display()))?;
    let end = Instant::now() + TIMEOUT;
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(output(&mut child)),
            None if Instant::now() < end => thread::sleep(POLL),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", TIMEOUT.as_secs()));
            }
        }
    }
}

/// Returns the start of a command's output, as one line.
fn output(child: &mut Child) -> String {
    let mut text = String::new();
    let mut take = |from: Option<&mut dyn Read>| {
        if let Some(from) = from {
            let mut bytes = Vec::new();
            let _ = from.take(400).read_to_end(&mut bytes);
            text += &String::from_utf8_lossy(&bytes);
        }
    };
    take(child.stderr.as_mut().map(|s| s as &mut dyn Read));
    take(child.stdout.as_mut().map(|s| s as &mut dyn Read));
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it failed without output".to_owned() } else { line }
}
