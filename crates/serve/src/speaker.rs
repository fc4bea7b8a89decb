//! Announcing by GoBGP, through its own command (docs/decisions/0027-gobgp-by-its-command.md).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_config::{ConfigError, read_text};
use forebay_plan::hints::bgp::Announcement;
use forebay_plan::hints::speak::{Journal, Line, Step, arguments, steps};
use forebay_plan::input::LARGEST;

use crate::files::replace;
use crate::lock::Lock;

/// A speaker that has not answered by then does not.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// Why nothing could be announced or withdrawn.
#[derive(Debug, thiserror::Error)]
pub enum SpeakError {
    /// The journal is not one.
    #[error(transparent)]
    Journal(#[from] ConfigError),
    /// It cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The journal.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process announces by it.
    #[error("{0} is in use by another running forebay process: stop that first")]
    InUse(PathBuf),
}

/// Tells speakers, and keeps a journal of it. While it is there no other process does by the same journal.
#[derive(Debug)]
pub struct Speaker {
    journal: PathBuf,
    gobgp: PathBuf,
    _lock: Lock,
}

/// What became of some steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// These were taken.
    pub done: usize,
    /// These failed, and stay in the journal.
    pub failed: usize,
}

impl Speaker {
    /// One that keeps `journal` and calls `gobgp`. Waits up to `patience` for another process that has the journal.
    ///
    /// # Errors
    /// If that one keeps it, or its lock cannot be made.
    pub fn new(journal: &Path, gobgp: &Path, patience: Duration) -> Result<Self, SpeakError> {
        let lock = Lock::of(journal, patience).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => SpeakError::InUse(journal.to_owned()),
            _ => SpeakError::Write { path: journal.to_owned(), source },
        })?;
        Ok(Self { journal: journal.to_owned(), gobgp: gobgp.to_owned(), _lock: lock })
    }

    /// Announces what is `wanted`, withdraws what is not, and calls `say` with each step and why it failed, if it did.
    ///
    /// # Errors
    /// If the journal cannot be read or written: then nothing more is announced, since it could not be taken back.
    pub fn speak(
        &self,
        wanted: &[Announcement],
        say: &mut dyn FnMut(&Step, Option<&str>),
    ) -> Result<Told, SpeakError> {
        let mut journal = read(&self.journal)?;
        let steps = steps(&journal, wanted);
        if steps.is_empty() {
            return Ok(Told::default());
        }
        let unwritten = |source| SpeakError::Write { path: self.journal.clone(), source };
        // Short, and without a line that a crash has torn.
        replace(&self.journal, &journal.text()).map_err(unwritten)?;
        let file = OpenOptions::new().append(true).open(&self.journal).map_err(unwritten)?;
        let mut told = Told::default();
        for step in &steps {
            if let Step::Announce(a) = step {
                put(&file, &mut journal, &Line::Begun(a.clone())).map_err(unwritten)?;
            }
            let no_speaker = || Err("has no speaker".to_owned());
            match arguments(step).map_or_else(no_speaker, |a| tell(&self.gobgp, &a)) {
                Ok(()) => {
                    put(&file, &mut journal, &Line::Done(step.clone())).map_err(unwritten)?;
                    told.done += 1;
                    say(step, None);
                }
                Err(why) => {
                    told.failed += 1;
                    say(step, Some(&why));
                }
            }
        }
        Ok(told)
    }
}

/// What is in a journal; nothing if it is not there.
///
/// # Errors
/// If it is no journal.
pub fn read(path: &Path) -> Result<Journal, ConfigError> {
    match path.exists() {
        true => Journal::read(path, &read_text(path, LARGEST)?),
        false => Ok(Journal::default()),
    }
}

/// A step in words.
pub fn words(step: &Step) -> String {
    let (verb, a) = match step {
        Step::Announce(a) => ("announce", a),
        Step::Withdraw(a) => ("withdraw", a),
    };
    format!("{verb} {} to {} at {}", a.prefix, a.neighbour, a.entry)
}

fn put(mut file: &File, journal: &mut Journal, line: &Line) -> io::Result<()> {
    let written = file.write_all(line.text().as_bytes()).and_then(|()| file.sync_data());
    journal.note(line);
    written
}

/// Runs GoBGP's command; if it fails, what it says.
fn tell(gobgp: &Path, arguments: &[String]) -> Result<(), String> {
    let mut command = Command::new(gobgp);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What this process has begun is not to be done after its supervisor has undone it.
    let mut child = forebay_guard::bind(&mut command)
        .spawn()
        .map_err(|e| format!("{} cannot be run: {e}", gobgp.display()))?;
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(said(&mut child)),
            None if Instant::now() < end => thread::sleep(LOOK),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", PATIENCE.as_secs()));
            }
        }
    }
}

/// The beginning of what a command has said, as one line.
fn said(child: &mut Child) -> String {
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
    if line.is_empty() { "it failed and said nothing".to_owned() } else { line }
}
