//! A guest of an experiment as a process of the host, in virtual time.
//!
//! The cost of a guest is the processor time that the host's scheduler counts for the process that
//! is the guest's kernel and for those that are its programs. The guest's own accounting is
//! useless, since its clock stands still while it works.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::order::{self, Order, Outcome};
use super::{Failed, MARK};
use crate::HOSTS_DIR;
use crate::Interrupt;
use crate::cores::{self, Core};
use crate::process::die_with;

/// The guest's memory, which is allocated on use.
const MEMORY: &str = "mem=2048M";
/// The interval at which an interrupt is checked.
const TICK: Duration = Duration::from_millis(100);
/// The longest silence of a guest; its work takes minutes at most.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1_200);
/// The number of console lines that are kept.
const TAIL: usize = 30;

/// The processor time that a guest used while it measured, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The time of its kernel.
    pub kernel: f64,
    /// The time of its kernel and its programs.
    pub all: f64,
}

/// Boots `kernel` with the order and waits for its end.
pub(super) fn run(
    kernel: &Path,
    dir: &Path,
    seed: u64,
    order: &Order,
    interrupt: &Interrupt,
) -> Result<(Outcome, Cost), Failed> {
    let failed = |what: &'static str| move |e: io::Error| Failed(format!("{what}: {e}"));
    order.write(dir).map_err(failed("writing the order"))?;
    let program = std::env::current_exe().map_err(failed("finding this program"))?;
    symlink(program, dir.join("init")).map_err(failed("preparing the guest"))?;
    let core = Core::claim().map_err(failed("choosing a core"))?;
    let mut guest = Guest(boot(kernel, dir, seed, core.number()).map_err(failed("booting"))?);
    let lines = console(&mut guest.0);
    let (mut said, mut marks, begun) = (Vec::new(), Vec::new(), Instant::now());
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) if line.contains(MARK) => marks.push(spent(guest.0.id())),
            Ok(line) => said.push(line),
            // Its standard output is closed: it has ended.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if interrupt.is_raised() => {
                return Err(Failed("interrupted".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) if begun.elapsed() > OUTPUT_TIMEOUT => {
                return Err(Failed(format!("a guest did not end within {OUTPUT_TIMEOUT:?}")));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    let _ = guest.0.wait();
    let outcome = order::read_outcome(dir).map_err(|_| {
        let tail = &said[said.len().saturating_sub(TAIL)..];
        Failed(format!("a guest ended without a result; its console:\n{}", tail.join("\n")))
    })?;
    let cost = match marks[..] {
        [begin, end] => Cost { kernel: end.kernel - begin.kernel, all: end.all - begin.all },
        _ => Cost::default(),
    };
    Ok((outcome, cost))
}

/// The process of a guest. It is killed with its whole session when dropped.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // SAFETY: takes two integers. Its processes are in its session's group; if it was reaped
        // the group is empty, and no other has its number while this process lives.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn boot(kernel: &Path, dir: &Path, seed: u64, core: usize) -> io::Result<Child> {
    let fixed = "time-travel=inf-cpu time-travel-start=1577836800000000000 console=tty0 con=null \
                 con0=null,fd:1 ssl=null quiet loglevel=5 panic=-1 root=none rootfstype=hostfs ro \
                 PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    let mut command = Command::new(kernel);
    command
        .args([MEMORY.to_owned(), format!("random_seed={seed}")])
        .args(fixed.split_whitespace())
        .arg(format!("init={HOSTS_DIR}/init"))
        .args(["--", "zd-guest"])
        .env_clear()
        .env("HOME", dir)
        .env("TMPDIR", "/dev/shm")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let parent = std::process::id();
    // SAFETY: between fork and exec only plain system calls are made, which take no locks and
    // allocate nothing.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            libc::setsid();
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            cores::pin_to(core)
        });
    }
    command.spawn()
}

/// The lines of its output as they come.
fn console(child: &mut Child) -> Receiver<String> {
    let (tell, lines) = channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                let _ = tell.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        });
    }
    lines
}

/// The processor time of the process `leader` and all of its session.
fn spent(leader: u32) -> Cost {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let ids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // The processes are collected first: that takes longer than reading their times, and the guest
    // continues meanwhile.
    let programs: Vec<_> = ids.filter(|id| *id != leader && session(*id) == Some(leader)).collect();
    let kernel = on_cpu(leader);
    Cost { kernel, all: kernel + programs.into_iter().map(on_cpu).sum::<f64>() }
}

/// The time that a process has run, in seconds (proc(5), `schedstat`).
fn on_cpu(id: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{id}/schedstat")).unwrap_or_default();
    let ns: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    ns as f64 / 1e9
}

/// The session of a process: the fourth field after its name, which may contain any character.
fn session(id: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()
}
