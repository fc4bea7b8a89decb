//! The processes of a run: how they are started, watched and ended.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use forebay_system::clock;
use forebay_units::Nanos;
use serde::Serialize;

use forebay_guest::{PROCESS_NAME, die_with};

use super::exec;
use super::run_dir::RunDir;
use crate::engine::EngineError;
use crate::traffic::Event;

/// The time that a process may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of lines of a process's standard error that are shown.
const TAIL: usize = 20;

/// The role of a process in the run, which decides how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The link: it ends when its input ends.
    Link,
    /// A box: it ends on SIGTERM.
    Box,
    /// A box that polls and never sleeps, without real-time priority. From a process with that
    /// priority Linux takes a twentieth of each second in one piece (`sched_rt_runtime_us`), in
    /// which it could not send.
    Polling,
    /// A program of others, or one beside the measured ones: it ends on SIGTERM and does not report
    /// when it is ready.
    Daemon,
    /// A traffic program for whose end the run waits.
    Measuring,
    /// A traffic program that may end at any time, if it succeeds.
    Serving,
}

/// A program, and variables that are added to its environment.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The program's path.
    pub path: &'a Path,
    /// The names and values of variables.
    pub variables: &'a [(&'static str, String)],
}

impl<'a> From<&'a Path> for Program<'a> {
    fn from(path: &'a Path) -> Self {
        Self { path, variables: &[] }
    }
}

/// The processes of a run, in the order of their start; killed when dropped.
pub struct Processes {
    list: Vec<Process>,
    sender: Sender<Message>,
    events: Receiver<Message>,
}

/// The index of a process, and what it reported when.
type Message = (usize, Nanos, Event);

struct Process {
    name: String,
    kind: Kind,
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: PathBuf,
    ready: Option<Nanos>,
    is_done: bool,
    /// Whether it was killed on purpose.
    is_killed: bool,
}

impl Kind {
    fn is_program(self) -> bool {
        matches!(self, Self::Measuring | Self::Serving)
    }
}

impl Default for Processes {
    fn default() -> Self {
        Self::new()
    }
}

impl Processes {
    /// Creates an empty list.
    pub fn new() -> Self {
        let (sender, events) = mpsc::channel();
        Self { list: Vec::new(), sender, events }
    }

    /// Starts this very program with `args` as `name` in `namespace`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start<S: AsRef<OsStr>>(
        &mut self,
        dir: &RunDir,
        name: &str,
        kind: Kind,
        namespace: Arc<File>,
        args: impl IntoIterator<Item = S>,
    ) -> Result<(), EngineError> {
        let path = std::env::current_exe().map_err(EngineError::io(format!("starting {name}")))?;
        let program = Program { path: &path, variables: &[] };
        self.start_program(dir, name, kind, namespace, program, args)
    }

    /// Starts `program` as `name` in `namespace`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_program<S: AsRef<OsStr>>(
        &mut self,
        dir: &RunDir,
        name: &str,
        kind: Kind,
        namespace: Arc<File>,
        program: Program<'_>,
        args: impl IntoIterator<Item = S>,
    ) -> Result<(), EngineError> {
        let failed = |e| EngineError::io(format!("starting {name}"))(e);
        let stderr = dir.file(&format!("{name}.stderr"));
        let mut command = Command::new(program.path);
        command
            .args(args)
            // A box of a run knows nothing of the paths of another.
            .env_remove("RUNTIME_DIRECTORY")
            .envs(program.variables.iter().map(|(key, value)| (key, value)))
            .env(PROCESS_NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).map_err(failed)?)
            // Ctrl-C in a terminal reaches only this process, which ends the others in order.
            .process_group(0);
        let mut child =
            die_with_parent(exec::within(&mut command, namespace), kind).spawn().map_err(failed)?;
        let index = self.list.len();
        if let Some(stdout) = child.stdout.take() {
            let sender = self.sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // A box may print other lines, which are ignored.
                    if let Ok(event) = serde_json::from_str(&line) {
                        let _ = sender.send((index, clock::now(), event));
                    }
                }
            });
        }
        let pid = child.id();
        self.list.push(Process {
            name: name.to_owned(),
            kind,
            stdin: child.stdin.take(),
            child,
            stderr,
            ready: (kind == Kind::Daemon).then(clock::now),
            is_done: false,
            is_killed: false,
        });
        dir.note_process(pid)
    }

    /// Writes a line of JSON to the standard input of the process started last.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn tell_last(&mut self, message: &impl Serialize) -> Result<(), EngineError> {
        self.list.last_mut().map_or(Ok(()), |process| process.tell(message))
    }

    /// Writes a line of JSON to the standard input of every traffic program and link.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn tell_programs(&mut self, message: &impl Serialize) -> Result<(), EngineError> {
        let hears = |kind: Kind| kind.is_program() || kind == Kind::Link;
        for process in self.list.iter_mut().filter(|process| hears(process.kind)) {
            process.tell(message)?;
        }
        Ok(())
    }

    /// Waits for an event from a process, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// If a process ended unexpectedly.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), EngineError> {
        if let Ok((index, time, event)) = self.events.recv_timeout(timeout) {
            let process = &mut self.list[index];
            match event {
                Event::Ready => process.ready = Some(time),
                Event::Done { late } => {
                    process.is_done = true;
                    // A program that lags measures its own host.
                    let late = Duration::from_nanos(late);
                    if late > Duration::from_millis(20) {
                        tracing::warn!(
                            "{} ran up to {} ms late: this machine is too busy for exact figures",
                            process.name,
                            late.as_millis()
                        );
                    }
                }
            }
        }
        for process in &mut self.list {
            process.check()?;
        }
        Ok(())
    }

    /// Kills the process `name` without giving it a chance to clean up, and waits for its end.
    /// Returns the time of its death.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn kill(&mut self, name: &str) -> Result<Nanos, EngineError> {
        let Some(process) = self.list.iter_mut().rfind(|process| process.name == name) else {
            return Ok(clock::now());
        };
        let failed = |e| EngineError::io(format!("killing {name}"))(e);
        process.is_killed = true;
        process.child.kill().map_err(failed)?;
        // It does nothing from here on, although the kernel may take a while to clean up.
        let killed = clock::now();
        process.child.wait().map_err(failed)?;
        Ok(killed)
    }

    /// Stops the process `name` that was started last, and all that it started, without ending it
    /// (SIGSTOP), or lets it run again (SIGCONT).
    pub fn freeze(&mut self, name: &str, is_frozen: bool) {
        if let Some(process) = self.list.iter_mut().rfind(|process| process.name == name) {
            process.send(if is_frozen { libc::SIGSTOP } else { libc::SIGCONT });
        }
    }

    /// Asks the process `name` that was started last to end (SIGTERM). It may end from now on.
    pub fn ask_to_end(&mut self, name: &str) {
        if let Some(process) = self.list.iter_mut().rfind(|process| process.name == name) {
            process.is_killed = true;
            process.ask();
        }
    }

    /// Ends the process `name` that was started last in the way of its kind, before the run ends.
    ///
    /// # Errors
    ///
    /// If it does not end, or fails.
    pub fn stop(&mut self, name: &str) -> Result<(), EngineError> {
        let process = self.list.iter_mut().rfind(|process| process.name == name);
        process.filter(|process| !process.is_killed).map_or(Ok(()), |process| {
            process.is_killed = true;
            process.end()
        })
    }

    /// The exit status of the process `name` that was started last, if it ended.
    pub fn status(&mut self, name: &str) -> Option<ExitStatus> {
        let process = self.list.iter_mut().rfind(|process| process.name == name);
        process.and_then(|process| process.child.try_wait().ok().flatten())
    }

    /// The time at which the process `name` that was started last became ready.
    pub fn ready_since(&self, name: &str) -> Option<Nanos> {
        self.list.iter().rfind(|process| process.name == name)?.ready
    }

    /// Whether all processes are ready.
    pub fn are_ready(&self) -> bool {
        self.list.iter().all(|process| process.ready.is_some())
    }

    /// Whether all measuring programs are done.
    pub fn are_done(&self) -> bool {
        self.list.iter().all(|process| process.kind != Kind::Measuring || process.is_done)
    }

    /// An error that names the processes that are not ready.
    pub fn laggards(&self) -> EngineError {
        let late: Vec<_> = self.list.iter().filter(|process| process.ready.is_none()).collect();
        EngineError::Process {
            process: late.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "),
            what: "did not become ready".to_owned(),
            stderr: late.iter().map(|p| p.tail()).collect(),
        }
    }

    /// Ends all running processes in order: the traffic programs first, then the boxes, the last
    /// started first.
    ///
    /// # Errors
    ///
    /// If a process does not end, or fails.
    pub fn end(&mut self) -> Result<(), EngineError> {
        for process in self.list.iter_mut().filter(|process| process.kind.is_program()) {
            process.stdin = None;
        }
        self.list
            .iter_mut()
            .filter(|process| process.kind.is_program())
            .try_for_each(Process::end)?;
        self.list
            .iter_mut()
            .rev()
            .filter(|process| !process.kind.is_program() && !process.is_killed)
            .try_for_each(Process::end)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.list {
            process.send(libc::SIGKILL);
            // Fails only for a process that has already ended.
            let _ = process.child.wait();
        }
    }
}

impl Process {
    fn tell(&mut self, message: &impl Serialize) -> Result<(), EngineError> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        let written = serde_json::to_string(message)
            .map_err(io::Error::other)
            .and_then(|line| stdin.write_all((line + "\n").as_bytes()));
        match written {
            // It has ended; the reason for that is more useful than a broken pipe.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                let status = self.child.wait().map_err(EngineError::io(self.name.clone()))?;
                Err(self.ended(status))
            }
            other => other.map_err(EngineError::io(format!("writing to {}", self.name))),
        }
    }

    /// Fails if the process ended unexpectedly or unsuccessfully.
    fn check(&mut self) -> Result<(), EngineError> {
        if self.is_killed {
            return Ok(());
        }
        match self.child.try_wait().map_err(EngineError::io(self.name.clone()))? {
            Some(status) if !self.kind.is_program() || !status.success() => Err(self.ended(status)),
            Some(_) => {
                self.is_done = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sends SIGTERM, unless the process has ended.
    fn ask(&mut self) {
        self.send(libc::SIGTERM);
    }

    /// Sends `signal` to the process, unless it has ended. A program of others may have started
    /// further processes, so its whole group receives the signal.
    fn send(&mut self, signal: i32) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let id = self.child.id() as libc::pid_t;
            let to = if self.kind == Kind::Daemon { -id } else { id };
            // SAFETY: takes two integers; the child is not reaped, so its id is still its own and
            // that of the group that it leads.
            unsafe { libc::kill(to, signal) };
        }
    }

    /// Asks the process to end, in the way of its kind, and waits for its end.
    fn end(&mut self) -> Result<(), EngineError> {
        self.stdin = None;
        if matches!(self.kind, Kind::Box | Kind::Polling | Kind::Daemon) {
            self.ask();
        }
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            match self.child.try_wait().map_err(EngineError::io(self.name.clone()))? {
                // A process without a handler for SIGTERM dies of it.
                Some(s) if s.success() || s.signal() == Some(libc::SIGTERM) => return Ok(()),
                Some(status) => return Err(self.ended(status)),
                None if Instant::now() > deadline => {
                    return Err(EngineError::Process {
                        process: self.name.clone(),
                        what: format!("did not end within {END_TIMEOUT:?}"),
                        stderr: self.tail(),
                    });
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn ended(&self, status: ExitStatus) -> EngineError {
        EngineError::Process {
            process: self.name.clone(),
            what: format!("ended early ({status})"),
            stderr: self.tail(),
        }
    }

    /// The last lines of its standard error.
    fn tail(&self) -> String {
        let text = fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

/// Makes the kernel kill the process when the thread that starts it ends for any reason, and gives
/// it a higher priority than other programs on this machine. The link and the boxes stand for
/// separate machines, so they do not wait for any program.
fn die_with_parent(command: &mut Command, kind: Kind) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only prctl, getppid, setpriority and sched_setscheduler are
    // called, plain system calls that take no locks and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            if kind == Kind::Daemon {
                return Ok(());
            }
            // Where that is not allowed (some containers), it runs with normal priority.
            libc::setpriority(libc::PRIO_PROCESS, 0, -10);
            if matches!(kind, Kind::Link | Kind::Box) {
                let first = libc::sched_param { sched_priority: 1 };
                libc::sched_setscheduler(0, libc::SCHED_RR, &first);
            }
            Ok(())
        })
    }
}
