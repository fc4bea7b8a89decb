//! The guest as a process of the host: its command line, its start and its end.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::cores::{self, Core};
use crate::engine::{EngineError, Job};
use crate::netns::die_with;

/// How many lines of the console are kept.
const TAIL: usize = 30;
/// The longest line of the console that is kept, in bytes.
const LINE: usize = 1_000;
/// The guest's memory beside that for packets, in MiB. It is not taken before it is used.
const MEMORY: u64 = 1_024;
/// Bytes for each full packet that the bottleneck can carry in the run: a record of 16 B and one of
/// 40 B in each of two logs, four records a packet, and as much again while they are written.
const PER_PACKET: u64 = 512;
/// A full-sized frame.
const FRAME: u64 = 1_514;
/// Where the guest's wall clock starts: 2020-01-01, in nanoseconds. Any fixed time will do.
const WALL_CLOCK: u64 = 1_577_836_800_000_000_000;
/// In the run's directory: the program that the guest starts first.
const INIT: &str = "init";

/// A guest. Gone when dropped, with all its processes.
pub(super) struct Machine {
    child: Child,
    console: Arc<Mutex<VecDeque<String>>>,
    _core: Core,
}

impl Machine {
    /// Boots `kernel` with its current directory in `dir`, which it shares with its guest.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn boot(kernel: &Path, dir: &Path, job: &Job<'_>) -> Result<Self, EngineError> {
        let failed = |e| EngineError::io(format!("starting {}", kernel.display()))(e);
        let program = std::env::current_exe().map_err(failed)?;
        symlink(program, dir.join(INIT)).map_err(failed)?;
        let core = Core::claim().map_err(EngineError::io("choosing a core"))?;
        let memory = memory(job);
        let mut command = Command::new(kernel);
        command
            .args(arguments(job.seed, memory))
            .env_clear()
            // Where it keeps its sockets.
            .env("HOME", dir)
            .env("TMPDIR", backing(memory, dir))
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

    /// The id of its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the system does not say.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The end of what its kernel said.
    pub(super) fn console(&self) -> String {
        let lines = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its processes are in its session. Killing fails only where nothing is left, and the kernel
        // ends the guest's processes with their tracer.
        // SAFETY: takes two integers; the child is not reaped before the next line, so that the id
        // is its own.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel's command line. Nothing in it differs between two runs of a job, since the kernel
/// mixes it into its random numbers.
fn arguments(seed: u64, memory: u64) -> Vec<String> {
    let own = [
        format!("mem={memory}M"),
        format!("random_seed={seed}"),
        "time-travel=inf-cpu".to_owned(),
        format!("time-travel-start={WALL_CLOCK}"),
    ];
    // No console but what it prints; a panic ends it at once.
    let rest = "console=tty0 con=null con0=null,fd:1 ssl=null quiet loglevel=4 panic=-1 root=none rootfstype=hostfs ro PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    let init = format!("init={}/{INIT}", super::guest::HOSTS_DIR);
    let rest = rest.split(' ').map(str::to_owned);
    let words = own.into_iter().chain(rest).chain([init]);
    words.chain(["--", "guest"].map(str::to_owned)).collect()
}

/// The guest's memory for `job`, in MiB: whole steps, for its network's buffers depend on it.
fn memory(job: &Job<'_>) -> u64 {
    let scenario = job.scenario;
    let packets = scenario.path.rate.bytes_in(scenario.length()).0 / FRAME;
    MEMORY + (packets.saturating_mul(PER_PACKET) >> 20).next_multiple_of(256)
}

/// Where the file is that is the guest's memory: in memory itself if there is room, since a disk
/// would write it all.
fn backing(memory: u64, dir: &Path) -> PathBuf {
    let shm = Path::new("/dev/shm");
    if super::kernel::room_in(shm).is_some_and(|free| free >> 20 >= memory) {
        return shm.to_owned();
    }
    dir.to_owned()
}

/// In a session of its own, so that a terminal's signals do not reach it; on one core; killed when
/// the thread that starts it ends, whatever ends it; leaving no core file.
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

/// Removes what a dead run left: its guest has ended with it.
pub(crate) fn reclaim(dir: &Path) -> Result<(), EngineError> {
    fs::remove_dir_all(dir).map_err(EngineError::io(format!("removing {}", dir.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{DEMO, parse};

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

    #[test]
    fn memory_grows_with_the_packets() {
        let demo = parse("demo.toml".as_ref(), DEMO).unwrap();
        let scenario = &demo.cells[0];
        let job = Job { scenario, arm: &scenario.arms[0], seed: 1 };
        assert_eq!(memory(&job), 1_280, "373 thousand packets");
        let mut long = scenario.clone();
        long.duration = forebay_units::Nanos::from_secs(1_000);
        let job = Job { scenario: &long, arm: &long.arms[0], seed: 1 };
        assert_eq!(memory(&job), 1_024 + 4_096, "8 million");
    }
}
