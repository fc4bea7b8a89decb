//! Processes of boxes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_test_support::namespace::Namespace;

use super::{forebay_in, until};

/// A process, which is killed when this value is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts `forebay` in a namespace, writes `input` to it, and waits until it is ready.
    ///
    /// Its standard error goes to `log`.
    pub(crate) fn start(
        namespace: &Namespace,
        arguments: &[&str],
        input: &str,
        log: &Path,
    ) -> Self {
        // Only services have a directory in which they remember paths.
        let mut command = forebay_in(namespace, arguments);
        Self::start_logging(command.env_remove("RUNTIME_DIRECTORY"), input, log)
    }

    /// Starts a command, writes `input` to it, and waits until it is ready.
    ///
    /// Its standard error goes to `log`.
    pub(crate) fn start_logging(command: &mut Command, input: &str, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut process =
            Self::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log));
        // The link ends with its standard input, so that stays open.
        writeln!(process.0.stdin.as_mut().unwrap(), "{input}").unwrap();
        process.wait_for("ready");
        process
    }

    /// Starts a command, and waits until it is ready.
    pub(crate) fn start_ready(command: &mut Command) -> Self {
        Self::start_saying("ready", command)
    }

    /// Starts a command, and waits until it has printed a line with this text.
    pub(crate) fn start_saying(text: &str, command: &mut Command) -> Self {
        let mut process = Self::spawn(command.stdout(Stdio::piped()));
        process.wait_for(text);
        process
    }

    /// Starts a command.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Checks that the first line that it prints has this text.
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(text), "{line}");
    }

    /// Returns the number of the process. It is the box's, which `ip netns exec` becomes.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Checks that it has not ended.
    pub(crate) fn assert_alive(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "it ended");
    }

    /// Waits until it has ended, and returns its exit status unless a signal ended it.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        until("it ends", || self.has_ended());
        self.0.wait().unwrap().code()
    }

    /// Sends a signal that ends it, waits until it has ended, and returns its exit status.
    pub(crate) fn signal(&mut self, signal: i32) -> Option<i32> {
        self.send(signal);
        self.wait()
    }

    /// Stops it, as if it hung, and waits until it has stopped.
    pub(crate) fn stop(&self) {
        self.send(libc::SIGSTOP);
        until("it stops", || self.state() == 'T');
    }

    /// Returns the state of the process as `/proc` has it: running, sleeping, stopped and so on.
    pub(crate) fn state(&self) -> char {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    /// Lets it go on after [`Process::stop`].
    pub(crate) fn go_on(&self) {
        self.send(libc::SIGCONT);
    }

    /// Sends it a signal.
    pub(crate) fn send(&self, signal: i32) {
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
