//! A process that does nothing but wait until the one that started it is dead, and then clears up after it.
//!
//! The kernel goes on shaping by the last rates that it was told, and a BGP speaker goes on announcing, whatever becomes
//! of the daemon that told them. So such a daemon starts a [`Guard`]: the same program again, in a session of its own, so
//! that what kills the daemon's process group leaves it, with a descriptor of the daemon's process (`pidfd_open(2)`) as
//! its standard input. There it calls [`wait`], and does what is to be done.
//!
//! What the daemon itself has begun must not go on meanwhile: [`bind`] has a command end with it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The process that clears up if this one dies.
///
/// Dropping it leaves it at its post, as a daemon that panics is a dead one.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts one: `command` with `arguments` must call [`wait`] before it does anything.
    ///
    /// # Errors
    /// If the kernel cannot watch a process (it is older than 5.3), or the process cannot be started.
    pub fn start<S: AsRef<OsStr>>(command: &OsStr, arguments: &[S]) -> io::Result<Self> {
        let mut command = Command::new(command);
        command.args(arguments).stdin(Stdio::from(own_process()?)).stdout(Stdio::null());
        // SAFETY: between fork and exec only setsid is called, a plain system call that takes no
        // locks and allocates nothing.
        unsafe {
            command.pre_exec(|| match libc::setsid() {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        command.spawn().map(Self)
    }

    /// Whether it is at its post.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Ends it: this process ends in order, and has cleared up itself.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn dismiss(mut self) -> io::Result<()> {
        self.0.kill().and_then(|()| self.0.wait()).map(drop)
    }
}

/// Has `command` end with this process, whatever ends it: with the thread that starts it, to be exact
/// (`PR_SET_PDEATHSIG`, prctl(2)), so that one must wait for it. Otherwise a command that a dead daemon has begun could
/// still do what the guard has undone.
pub fn bind(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only prctl and getppid are called, plain system calls that take no locks and
    // allocate nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
                return Err(io::Error::last_os_error());
            }
            // It may have died before the line above.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        })
    }
}

/// A descriptor of this process, that becomes readable when it is dead.
fn own_process() -> io::Result<OwnedFd> {
    // SAFETY: takes integers; the descriptor is nobody else's.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// In the guard itself: returns when the process behind standard input is dead. From then on signals that end processes
/// in order are left waiting, so that what is sent to all processes of a service does not end the one that clears up.
///
/// # Errors
/// If signals cannot be blocked, or standard input is no process.
pub fn wait() -> io::Result<()> {
    block_signals()?;
    wait_for_the_end(&io::stdin())
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

fn wait_for_the_end(process: &impl AsRawFd) -> io::Result<()> {
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
