//! A process that lifts the limits when the daemon dies.
//!
//! The kernel would shape at the last rates for ever. Therefore each daemon starts a supervisor, a
//! [`Guard`]. When the daemon is dead, the supervisor removes the limits of all bundles and leaves
//! the tree, with the packets that wait in it, to the next daemon. It does nothing if the next
//! daemon has started already.

use std::ffi::OsStr;

use forebay_guard::Guard;

use crate::encode;
use crate::lock::Lock;
use crate::netlink::{Batch, Netlink};
use crate::tree::refused;
use crate::{Class, Device, Error, Found, Root, Shape};
use forebay_units::Bytes;

/// The process that lifts the limits if this process dies.
///
/// Dropping this value does not stop the supervisor, since a daemon that panics is dead too.
#[derive(Debug)]
pub struct Supervisor(Guard);

/// What a supervisor did after the death of its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It removed the limits of this many bundles.
    Lifted(usize),
    /// Another daemon has the tree.
    Adopted,
    /// There was no tree of a sendbox.
    NoTree,
}

impl Supervisor {
    /// Starts one: `command` with `arguments` must call [`supervise`] for the device.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start<S: AsRef<OsStr>>(command: &OsStr, arguments: &[S]) -> Result<Self, Error> {
        let started = Guard::start(command, arguments);
        started.map(Self).map_err(Error::system("starting the supervisor (pidfd_open, Linux 5.3)"))
    }

    /// Whether it is at its post.
    pub fn is_alive(&mut self) -> bool {
        self.0.is_alive()
    }

    /// Ends it: this daemon ends in order, and has taken its tree away.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn dismiss(self) -> Result<(), Error> {
        self.0.dismiss().map_err(Error::system("ending the supervisor"))
    }
}

/// The supervisor itself: waits until the process behind standard input is dead, and lifts the
/// limits of the device called `name`.
///
/// # Errors
/// If it cannot wait, or the limits cannot be lifted.
pub fn supervise(name: &str) -> Result<Outcome, Error> {
    let watching = "watching a process (standard input must be a pidfd of it)";
    forebay_guard::wait().map_err(Error::system(watching))?;
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
