//! Running commands and threads in network namespaces.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::engine::EngineError;

/// Where iproute2 mounts namespaces by their names.
const NAMESPACES: &str = "/run/netns";

/// Returns the file that stands for the namespace `name`.
pub fn namespace_file(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// Opens the namespace `name`.
///
/// # Errors
/// If there is none.
pub fn open_namespace(name: &str) -> Result<Arc<File>, EngineError> {
    let file = namespace_file(name);
    let what = format!("opening {}", file.display());
    File::open(&file).map(Arc::new).map_err(EngineError::io(what))
}

/// Moves the calling thread into `namespace`.
///
/// # Errors
/// If the system refuses.
pub fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: takes a descriptor, which is open, and an integer.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes `command` start its process in `namespace`.
pub fn within(command: &mut Command, namespace: Arc<File>) -> &mut Command {
    // SAFETY: between fork and exec only setns is called, a plain system call that takes no locks
    // and allocates nothing; reading errno into an `io::Error` allocates nothing either.
    unsafe { command.pre_exec(move || enter(&namespace)) }
}

/// Runs `f` on a new thread in `namespace`.
///
/// # Errors
/// If the thread cannot enter the namespace, or `f` fails.
pub fn in_namespace<T: Send>(
    namespace: &File,
    f: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| enter(namespace).and_then(|()| f()));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `f` on a new thread in a new network namespace, which ends with the thread.
///
/// # Errors
/// If the namespace cannot be created.
pub fn in_new_namespace<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: takes a flag, and changes the network namespace of this thread alone.
            match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                0 => Ok(f()),
                _ => Err(io::Error::last_os_error()),
            }
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `command` to its end with `input`.
///
/// # Errors
/// If it cannot be started or fails, with what it said.
pub fn run(command: &mut Command, input: &str) -> Result<(), EngineError> {
    output(command, input).map(drop)
}

/// Runs `command` to its end with `input` and returns what it wrote to standard output.
///
/// # Errors
/// Fails under the conditions of [`run`].
pub fn output(command: &mut Command, input: &str) -> Result<String, EngineError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let args = command.get_args().map(|a| a.to_string_lossy().into_owned());
    let line = std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ");
    let failed = |message: String| EngineError::Command { command: line, message };
    let started =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = started.and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // Where it fails, the command has ended and says why.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output()
    });
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(failed(format!("{e}: install the packages iproute2 and ethtool")))
        }
        Err(e) => Err(failed(e.to_string())),
    }
}

/// Runs a batch of commands of `program`, which is `ip` or `tc`, in the namespace `name` or in this
/// one.
///
/// # Errors
/// If one fails, with what it said and its line.
pub fn batch(program: &str, name: Option<&str>, batch: &str) -> Result<(), EngineError> {
    let mut command = Command::new(program);
    if let Some(name) = name {
        command.args(["-n", name]);
    }
    run(command.args(["-batch", "-"]), batch).map_err(|e| match e {
        EngineError::Command { command, message } => {
            // iproute2 gives the number of the line that failed: `Command failed -:3`.
            let line = message
                .rsplit(':')
                .next()
                .and_then(|n| n.trim().parse::<usize>().ok())
                .and_then(|n| batch.lines().nth(n.checked_sub(1)?));
            let command = line.map_or(command, |line| format!("{program} {line}"));
            EngineError::Command { command, message }
        }
        other => other,
    })
}
