//! A process that waits for the death of the daemon that started it, and then cleans up after it.
//!
//! A BGP speaker keeps announcing routes even if the daemon that set them dies. So such a daemon
//! starts a [`Guard`]: the same program in a session of its own, so that a signal to the daemon's
//! process group does not reach it. Its standard input is a descriptor of the daemon's process
//! (`pidfd_open(2)`). The guard calls [`wait`], and then cleans up.
//!
//! Commands that the daemon has started must not continue meanwhile: [`bind`] ties a command to the
//! life of the daemon.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The process that cleans up if this one dies.
///
/// Dropping it leaves the process running, since a daemon that panics counts as dead.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a guard. The program `command` with `arguments` must call [`wait`] before anything
    /// else.
    ///
    /// # Errors
    /// If the kernel has no process descriptors (before Linux 5.3), or the process cannot be
    /// started.
    pub fn start<S: AsRef<OsStr>>(command: &OsStr, arguments: &[S]) -> io::Result<Self> {
        let mut command = Command::new(command);
        command.args(arguments).stdin(Stdio::from(own_process()?)).stdout(Stdio::null());
        // SAFETY: between fork and exec only setsid is called, a system call that takes no locks
        // and allocates nothing.
        unsafe {
            command.pre_exec(|| match libc::setsid() {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        Ok(Self { child: command.spawn()? })
    }

    /// Whether the guard is running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops the guard, when this process ends normally and has cleaned up itself.
    ///
    /// # Errors
    /// If the guard cannot be stopped.
    pub fn dismiss(mut self) -> io::Result<()> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop)
    }
}

/// Makes the kernel kill `command` when the thread that starts it ends (`PR_SET_PDEATHSIG`,
/// prctl(2)).
///
/// The calling thread must therefore wait for the command. Without this, a command of a dead daemon
/// could redo what the guard has undone.
pub fn bind(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only prctl and getppid are called, system calls that take no
    // locks and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the call above.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        })
    }
}

/// Returns a descriptor of this process, which becomes readable when the process is dead.
fn own_process() -> io::Result<OwnedFd> {
    // SAFETY: the call takes integers, and the new descriptor has no other owner.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Waits, in the guard, until the process behind standard input is dead.
///
/// It first blocks the signals that end processes normally, so that a signal to all processes of a
/// service does not stop the one that cleans up.
///
/// # Errors
/// If signals cannot be blocked, or standard input is not a process descriptor.
pub fn wait() -> io::Result<()> {
    block_signals()?;
    wait_for_exit(&io::stdin())
}

fn block_signals() -> io::Result<()> {
    // SAFETY: the set is initialised before it is used, and the calls only read it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        match libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn wait_for_exit(process: &impl AsRawFd) -> io::Result<()> {
    let mut wait = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid `pollfd`, which the call writes to.
        let ready = unsafe { libc::poll(&mut wait, 1, -1) };
        match ready {
            1 if wait.revents & libc::POLLIN != 0 => return Ok(()),
            1 => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
            _ => {
                let source = io::Error::last_os_error();
                if source.kind() != io::ErrorKind::Interrupted {
                    return Err(source);
                }
            }
        }
    }
}
