//! A guest as a process of the host: its command line, start and end.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use forebay_system::private;

use crate::Error;
use crate::LockedDir;
use crate::cores::{self, Core};
use crate::process::die_with;

/// The number of console lines that are kept.
const TAIL: usize = 30;
/// The length in bytes to which console lines are cut.
const LINE: usize = 1_000;
/// The start of the guest's wall clock: 2020-01-01, in nanoseconds. Any fixed time works.
const WALL_CLOCK: u64 = 1_577_836_800_000_000_000;
/// The program in the run's directory that the guest starts first.
const INIT: &str = "init";

/// A running guest. It is killed with all its processes when dropped.
pub struct Machine {
    child: Child,
    console: Arc<Mutex<VecDeque<String>>>,
    _core: Core,
}

impl Machine {
    /// Boots `kernel` in the directory `dir`, which the guest can mount. Its random numbers come
    /// from `seed`, and it has `memory` MiB.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn boot(kernel: &Path, dir: &Path, seed: u64, memory: u64) -> Result<Self, Error> {
        let failed = |e| Error::io(format!("starting {}", kernel.display()))(e);
        let program = std::env::current_exe().map_err(failed)?;
        symlink(program, dir.join(INIT)).map_err(failed)?;
        let core = Core::claim().map_err(Error::io("choosing a core"))?;
        let mut command = Command::new(kernel);
        command
            .args(arguments(seed, memory))
            .env_clear()
            // The directory for its sockets.
            .env("HOME", dir)
            .env("TMPDIR", backing(memory))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = on_its_own(&mut command, core.number()).spawn().map_err(failed)?;
        let console = Arc::default();
        if let Some(out) = child.stdout.take() {
            keep(out, &console);
        }
        if let Some(err) = child.stderr.take() {
            keep(err, &console);
        }
        Ok(Self { child, console, _core: core })
    }

    /// The id of the kernel process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the guest has ended.
    ///
    /// # Errors
    ///
    /// If the system does not report it.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The last lines of the kernel's console.
    pub fn console(&self) -> String {
        let lines = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its processes are in its session. Killing fails only where nothing is left, and the
        // kernel ends the guest's processes with their tracer. SAFETY: takes two integers; the
        // child is not reaped before the next line, so that the id is its own.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel's command line. It is the same for all runs of a job, since the kernel mixes it into
/// its random numbers.
fn arguments(seed: u64, memory: u64) -> Vec<String> {
    let own = [
        format!("mem={memory}M"),
        format!("random_seed={seed}"),
        "time-travel=inf-cpu".to_owned(),
        format!("time-travel-start={WALL_CLOCK}"),
    ];
    // No console except for messages; a panic ends the kernel at once.
    let rest = "console=tty0 con=null con0=null,fd:1 ssl=null quiet loglevel=4 panic=-1 root=none rootfstype=hostfs ro PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    let init = format!("init={}/{INIT}", crate::HOSTS_DIR);
    let rest = rest.split(' ').map(str::to_owned);
    let words = own.into_iter().chain(rest).chain([init]);
    words.chain(["--", "guest"].map(str::to_owned)).collect()
}

/// The directory of the file that is the guest's memory: shared memory if there is room, since a
/// disk would write all of it. The guest's kernel creates the file exclusively under a random name
/// and unlinks it at once, so that a directory of all users is safe.
fn backing(memory: u64) -> PathBuf {
    let shm = Path::new("/dev/shm");
    if crate::kernel::room_in(shm).is_some_and(|free| free >> 20 >= memory) {
        return shm.to_owned();
    }
    std::env::temp_dir()
}

/// Starts the process in its own session, so that signals of a terminal do not reach it, on one
/// core and without a core file. The kernel kills it when the thread that starts it ends.
fn on_its_own(command: &mut Command, core: usize) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only plain system calls are made, which take no locks and
    // allocate nothing.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            libc::setsid();
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            // Addresses are the same in every run.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            cores::pin_to(core)
        })
    }
}

/// Keeps the last lines of `output`.
fn keep(output: impl io::Read + Send + 'static, console: &Arc<Mutex<VecDeque<String>>>) {
    let console = Arc::clone(console);
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line[..line.len().min(LINE)]);
            let text = text.trim_end();
            if text.is_empty() {
                continue;
            }
            tracing::debug!("guest: {text}");
            let mut lines = console.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == TAIL {
                lines.pop_front();
            }
            lines.push_back(text.to_owned());
        }
    });
}

/// Creates the directory of a run, after removing those of killed runs.
///
/// Each user has a base directory, which nobody else can enter.
///
/// # Errors
///
/// If it cannot be created.
pub fn run_dir() -> Result<LockedDir, Error> {
    LockedDir::create(&base(private::runtime_directory()), |dead| {
        // The guest has ended with its run.
        fs::remove_dir_all(dead).map_err(Error::io(format!("removing {}", dead.display())))
    })
}

/// The base of all runs' directories, in the user's directory for running processes or, without
/// one, in the temporary directory.
fn base(runtime: Option<PathBuf>) -> PathBuf {
    match runtime {
        Some(dir) => dir.join("forebay-uml"),
        None => std::env::temp_dir().join(format!("forebay-uml-{}", private::user())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_the_same_for_the_same_job() {
        let words = arguments(7, 1_280).join(" ");
        assert_eq!(
            words,
            "mem=1280M random_seed=7 time-travel=inf-cpu time-travel-start=1577836800000000000 \
             console=tty0 con=null con0=null,fd:1 ssl=null quiet loglevel=4 panic=-1 root=none \
             rootfstype=hostfs ro PATH=/usr/sbin:/usr/bin:/sbin:/bin init=/proc/self/cwd/init -- guest"
        );
    }
}
