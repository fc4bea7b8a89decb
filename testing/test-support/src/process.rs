//! Programs of the workspace as processes, and waits for what they do.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Bound on a wait for something that happens for certain. No verdict depends on it.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(100);

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold within [`HANG_TIMEOUT`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANG_TIMEOUT, "{what}: not within {HANG_TIMEOUT:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the file of another program of the workspace. Cargo builds it for tests only with the
/// tests of its own package.
///
/// # Panics
/// If it is not built.
pub fn program(name: &str) -> PathBuf {
    // This test is in `deps` of the directory of the programs.
    let test = env::current_exe().unwrap();
    let file = test.ancestors().nth(2).unwrap().join(name);
    assert!(file.exists(), "{} is missing: `scripts/run-tests build` makes it", file.display());
    file
}

/// Sends SIGTERM to a process, and returns what it printed until its end.
///
/// # Panics
/// If it does not end within [`HANG_TIMEOUT`].
pub fn terminated(mut child: Child) -> Output {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: signals a child that is not yet waited for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    until("the process ends", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

/// A process, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command, writes `input` to it, and waits until it is ready.
    ///
    /// Its standard error goes to `log`.
    ///
    /// # Panics
    /// If it cannot be started, or its first line says something else.
    pub fn start_logging(command: &mut Command, input: &str, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut process =
            Self::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log));
        // The link ends with its standard input, so that stays open.
        writeln!(process.0.stdin.as_mut().unwrap(), "{input}").unwrap();
        process.wait_for("ready");
        process
    }

    /// Starts a command, and waits until it is ready.
    ///
    /// # Panics
    /// If it cannot be started, or its first line says something else.
    pub fn start_ready(command: &mut Command) -> Self {
        Self::start_saying("ready", command)
    }

    /// Starts a command, and waits until it has printed a line with this text.
    ///
    /// # Panics
    /// If it cannot be started, or its first line says something else.
    pub fn start_saying(text: &str, command: &mut Command) -> Self {
        let mut process = Self::spawn(command.stdout(Stdio::piped()));
        process.wait_for(text);
        process
    }

    /// Starts a command.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Checks that the first line that it prints has this text.
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(text), "{line}");
    }

    /// Returns the number of the process. It is the box's, which `ip netns exec` becomes.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If the system does not say.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Checks that it has not ended.
    ///
    /// # Panics
    /// If it has ended.
    pub fn assert_alive(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "it ended");
    }

    /// Waits until it has ended, and returns its exit status unless a signal ended it.
    ///
    /// # Panics
    /// If it does not end within [`HANG_TIMEOUT`].
    pub fn wait(&mut self) -> Option<i32> {
        until("it ends", || self.has_ended());
        self.0.wait().unwrap().code()
    }

    /// Sends a signal that ends it, waits until it has ended, and returns its exit status.
    ///
    /// # Panics
    /// If it does not end within [`HANG_TIMEOUT`].
    pub fn signal(&mut self, signal: i32) -> Option<i32> {
        self.send(signal);
        self.wait()
    }

    /// Stops it, as if it hung, and waits until it has stopped.
    ///
    /// # Panics
    /// If it does not stop within [`HANG_TIMEOUT`].
    pub fn stop(&self) {
        self.send(libc::SIGSTOP);
        until("it stops", || self.state() == 'T');
    }

    /// Returns the state of the process as `/proc` has it: running, sleeping, stopped and so on.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn state(&self) -> char {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    /// Lets it go on after [`Process::stop`].
    ///
    /// # Panics
    /// If there is no such process.
    pub fn go_on(&self) {
        self.send(libc::SIGCONT);
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn send(&self, signal: i32) {
        // SAFETY: takes integers; the process is this test's child, not yet waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
