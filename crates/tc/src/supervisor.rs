//! What lifts the limits when the daemon dies: a process of its own that does nothing but wait for
//! that.
//!
//! The kernel goes on shaping by the last rates that it was told, for ever. So each daemon starts a
//! supervisor, which holds a descriptor of the daemon's process (`pidfd_open(2)`), is in a session of
//! its own, so that what kills the daemon's process group leaves it, and blocks the signals that end
//! processes in order. When the daemon is dead it sets all bundles to no limit and leaves the tree,
//! with all that waits in it, to the next daemon. It touches nothing if that has begun already.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::encode;
use crate::lock::Lock;
use crate::netlink::{Batch, Netlink};
use crate::tree::refused;
use crate::{Class, Device, Error, Found, Root, Shape};
use forebay_units::Bytes;

/// The process that lifts the limits if this one dies.
///
/// Dropping it leaves it at its post, as a daemon that panics is a dead one.
#[derive(Debug)]
pub struct Supervisor(Child);

/// What a supervisor did when its daemon was dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It set this many bundles to no limit.
    Lifted(usize),
    /// Another daemon has the tree.
    Adopted,
    /// There was no tree of ours.
    NoTree,
}

impl Supervisor {
    /// Starts one: `command` with `arguments` must call [`supervise`] for the device.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start<S: AsRef<OsStr>>(command: &OsStr, arguments: &[S]) -> Result<Self, Error> {
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
        command.spawn().map(Self).map_err(Error::system("starting the supervisor"))
    }

    /// Whether it is at its post.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Ends it: this daemon ends in order, and has taken its tree away.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn dismiss(mut self) -> Result<(), Error> {
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .map(drop)
            .map_err(Error::system("ending the supervisor"))
    }
}

/// A descriptor of this process, that becomes readable when it is dead.
fn own_process() -> Result<OwnedFd, Error> {
    // SAFETY: takes integers; the descriptor is nobody else's.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        if fd < 0 {
            return Err(Error::last("watching this process (pidfd_open, Linux 5.3)"));
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// The supervisor itself: waits until the process behind standard input is dead, and lifts the limits
/// of the device called `name`.
///
/// # Errors
/// If it cannot wait, or the limits cannot be lifted.
pub fn supervise(name: &str) -> Result<Outcome, Error> {
    block_signals()?;
    wait_for_the_end(&io::stdin())?;
    let device = Device::find(name)?;
    // While this is held no daemon can adopt the tree; one that starts waits for it.
    let _lock = match Lock::hold(&device) {
        Err(Error::InUse(_)) => return Ok(Outcome::Adopted),
        lock => lock?,
    };
    lift(&device)
}

/// Sets all bundles' classes on `device` to no limit.
fn lift(device: &Device) -> Result<Outcome, Error> {
    let mut socket = Netlink::open(0)?;
    let found = Found::ask(&mut socket, device)?;
    if found.root() != Root::Ours {
        return Ok(Outcome::NoTree);
    }
    let mut batch = Batch::default();
    for &id in found.classes.keys().filter(|id| id.bundle().is_some()) {
        let Some(there) = found.htb_class(id) else { continue };
        let (quantum, urgency) = (Bytes(there.quantum.into()), there.urgency);
        let class = Class { id, shape: Shape::Bundle, urgency, quantum };
        encode::class(&mut batch, device, &class, None, libc::NLM_F_REPLACE);
    }
    let lifted = batch.len();
    let failures = socket.transact(&mut batch)?;
    match failures.into_iter().next() {
        None => Ok(Outcome::Lifted(lifted)),
        Some(failure) => Err(refused(device, "lifting limits".to_owned(), failure)),
    }
}

/// What is sent to all processes of a service when it is to stop must not end the one that has to
/// act when its daemon is killed afterwards.
fn block_signals() -> Result<(), Error> {
    // SAFETY: the set is initialised before it is used, and the calls only read it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        match libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(Error::last("blocking signals")),
        }
    }
}

fn wait_for_the_end(process: &impl AsRawFd) -> Result<(), Error> {
    let mut wait = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid `pollfd`, which the call writes to.
        let ready = unsafe { libc::poll(&mut wait, 1, -1) };
        match ready {
            1 if wait.revents & libc::POLLIN != 0 => return Ok(()),
            1 => {
                let source = io::Error::from(io::ErrorKind::InvalidInput);
                let what = "watching a process (standard input must be a pidfd of it)";
                return Err(Error::System { what, source });
            }
            _ => {
                let source = io::Error::last_os_error();
                if source.kind() != io::ErrorKind::Interrupted {
                    return Err(Error::system("waiting for a process to end")(source));
                }
            }
        }
    }
}
