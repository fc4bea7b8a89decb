//! The ISP's controller: whenever demands were measured, plan, and announce the hints.
//!
//! It is one process with one guard. A round is the project's own commands, `forebay plan hints --write` and `forebay plan
//! announce --apply`, over files in one directory; the file of demands, replaced as a whole, is the sign for it. So what
//! makes rounds can be another program, as long as it reads and writes the same files.
//!
//! The guard waits for the worker to end. If it ends badly, in whatever way, what was announced stays, or is taken back
//! by the journal, as it was told ([`OnDeath`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_plan::hints::{Hints, State};

use super::files::Files;
use super::record::Round;
use crate::engine::EngineError;
use crate::netns::{die_with, exec};

/// How often it is looked for new demands.
const LOOK: Duration = Duration::from_millis(100);
/// How often taking back is tried before it is left to the operator.
const ATTEMPTS: u32 = 5;

/// What becomes of announcements when the controller dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDeath {
    /// They stay as they are: the last good ones.
    Keep,
    /// They are taken back.
    Withdraw,
}

impl OnDeath {
    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Withdraw => "withdraw",
        }
    }
}

/// Starts a worker over the files in `dir` and waits for its end; then does what `on_death` says.
///
/// # Errors
/// If the worker cannot be started, or what was announced cannot be taken back.
pub fn guard(dir: &Path, gobgp: &Path, on_death: OnDeath) -> Result<(), EngineError> {
    let files = Files(dir.to_owned());
    let mut command = own()?;
    command.args(["plan", "controller", "--worker", "--dir"]).arg(dir).arg("--gobgp").arg(gobgp);
    let mut worker =
        bound(&mut command).spawn().map_err(EngineError::io("starting the controller"))?;
    put(&files.pid(), &format!("{}\n", worker.id()))?;
    let status = worker.wait().map_err(EngineError::io("waiting for the controller"))?;
    if status.success() || on_death == OnDeath::Keep {
        return Ok(());
    }
    let mut attempt = 1;
    loop {
        match withdraw(&files, gobgp) {
            Ok(()) => return Ok(()),
            Err(e) if attempt == ATTEMPTS => return Err(e),
            Err(e) => tracing::warn!("{e}"),
        }
        attempt += 1;
        thread::sleep(Duration::from_secs(1));
    }
}

/// Makes a round for every file of demands, until it is killed.
///
/// # Errors
/// If what became of a round cannot be written down.
pub fn work(dir: &Path, gobgp: &Path) -> Result<(), EngineError> {
    let files = Files(dir.to_owned());
    let mut last = None;
    loop {
        // Replaced by renaming, so another file has another number.
        let now = fs::metadata(files.demands()).ok().map(|m| (m.ino(), m.mtime(), m.mtime_nsec()));
        if now.is_some() && now != last {
            last = now;
            let round = round(&files, gobgp);
            let line = serde_json::to_string(&round).map_err(io::Error::other);
            line.and_then(|line| {
                let mut file = OpenOptions::new().create(true).append(true).open(files.rounds())?;
                file.write_all((line + "\n").as_bytes())
            })
            .map_err(EngineError::io("noting a round"))?;
        }
        thread::sleep(LOOK);
    }
}

/// Plans and announces. What fails is said, and tried again in the next round; what is in force stays.
fn round(files: &Files, gobgp: &Path) -> Round {
    let begin = Instant::now();
    let mut round = match hints(files) {
        Ok(hints) => Round::of(&hints),
        Err(e) => return Round { error: Some(e.to_string()), ..Round::default() },
    };
    match announce(files, gobgp) {
        Ok(steps) => round.steps = steps,
        Err(e) => round.error = Some(e.to_string()),
    }
    round.seconds = begin.elapsed().as_secs_f64();
    round
}

fn hints(files: &Files) -> Result<Hints, EngineError> {
    let mut command = own()?;
    command.args(["plan", "hints", "--show", "json", "--write", "--paths", "1"]);
    command.arg("--topology").arg(files.topology()).arg("--providers").arg(files.providers());
    command.arg("--demands").arg(files.demands()).arg("--prefixes").arg(files.prefixes());
    command.arg("--last").arg(files.hints());
    let text = exec::output(bound(&mut command), "")?;
    serde_json::from_str(&text).map_err(|e| EngineError::Unfit(format!("`plan hints` said: {e}")))
}

/// How many routes were announced or withdrawn.
pub(super) fn announce(files: &Files, gobgp: &Path) -> Result<usize, EngineError> {
    let mut command = own()?;
    command.args(["plan", "announce", "--apply", "--hints"]).arg(files.hints());
    command.arg("--topology").arg(files.topology()).arg("--providers").arg(files.providers());
    command.arg("--journal").arg(files.journal()).arg("--gobgp").arg(gobgp);
    let text = exec::output(bound(&mut command), "")?;
    Ok(text.lines().filter(|l| l.starts_with("announce ") || l.starts_with("withdraw ")).count())
}

/// Takes back all that was announced.
pub(super) fn withdraw(files: &Files, gobgp: &Path) -> Result<(), EngineError> {
    let mut command = own()?;
    command.args(["plan", "withdraw", "--journal"]).arg(files.journal());
    exec::run(bound(command.arg("--gobgp").arg(gobgp)), "")
}

/// This program.
fn own() -> Result<Command, EngineError> {
    std::env::current_exe().map(Command::new).map_err(EngineError::io("finding this program"))
}

/// Has the process end with this one: what is killed does nothing more.
fn bound(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only prctl and getppid are called, plain system calls that take no locks and
    // allocate nothing.
    unsafe { command.stdin(Stdio::null()).pre_exec(move || die_with(parent)) }
}

/// Writes a file so that it is the old one or the new one for whoever looks.
pub(super) fn put(path: &Path, text: &str) -> Result<(), EngineError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, path))
        .map_err(EngineError::io(format!("writing {}", path.display())))
}

impl Round {
    fn of(hints: &Hints) -> Self {
        let new = |n: &forebay_plan::hints::Neighbour| {
            n.hints.iter().filter(|h| h.state != State::Kept).count() + n.withdrawn.len()
        };
        Self {
            demand_mbps: hints.demand / 1e6,
            before_mbps: hints.before / 1e6,
            after_mbps: hints.after / 1e6,
            changes: hints.neighbours.iter().map(new).sum(),
            ..Self::default()
        }
    }
}
