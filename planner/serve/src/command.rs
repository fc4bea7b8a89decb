//! Runs a command with a time limit, and never longer than this process lives.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which a command is checked for its end.
const POLL: Duration = Duration::from_millis(1);

/// Why what a command reads or changes is not known or not changed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command cannot be run, or does not end.
    #[error("cannot run {0}: {1}")]
    Run(String, io::Error),
    /// The command failed.
    #[error("{command}: {message}")]
    Failed {
        /// The command with its arguments.
        command: String,
        /// What it printed.
        message: String,
    },
    /// The output of the command cannot be understood.
    #[error("{0}: its output cannot be read: {1}")]
    Output(String, String),
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: String,
}

/// Runs `command` with `input`, for at most `timeout`, and reads at most `largest` bytes of each
/// output.
///
/// # Errors
/// If it cannot be run; `TimedOut` if it does not end, and it is killed then.
pub(crate) fn run(
    command: &mut Command,
    input: String,
    timeout: Duration,
    largest: u64,
) -> io::Result<Finished> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The command must not finish after the supervisor has removed what it changes.
    let mut child = forebay_guard::bind(command).spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (status, output, errors) = thread::scope(|scope| {
        scope.spawn(move || {
            // A command that ends early closes its input, and its status says why.
            let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        });
        let output = scope.spawn(move || whole(stdout, largest));
        let errors = scope.spawn(move || whole(stderr, largest));
        let end = Instant::now() + timeout;
        let status = loop {
            match child.try_wait() {
                Ok(None) if Instant::now() >= end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break Err(io::ErrorKind::TimedOut.into());
                }
                Ok(None) => thread::sleep(POLL),
                Ok(Some(status)) => break Ok(status),
                Err(e) => break Err(e),
            }
        };
        let gone = || io::Error::other("a thread has panicked");
        let output = output.join().map_err(|_| gone()).and_then(|read| read);
        let errors = errors.join().map_err(|_| gone()).and_then(|read| read);
        (status, output, errors)
    });
    let (status, output, errors) = (status?, output?, errors?);
    Ok(Finished { status, output, errors: String::from_utf8_lossy(&errors).into_owned() })
}

fn whole(from: Option<impl Read>, largest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(largest).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_returned_and_a_command_that_hangs_is_killed() {
        let shell = |script: &str, timeout| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run(&mut command, "in\n".to_owned(), timeout, 4)
        };
        let long = Duration::from_secs(60);
        let done = shell("cat; echo out; echo wrong >&2; exit 3", long).unwrap();
        assert_eq!((done.output.as_slice(), done.errors.as_str()), (&b"in\no"[..], "wron"));
        assert_eq!(done.status.code(), Some(3));
        let error = shell("exec sleep 600", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
