//! One owner of a device's tree.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use forebay_system::NameLock;

use crate::{Device, Error};

/// Holds a device's tree. A supervisor that gets the lock knows that no daemon has adopted the
/// tree, and that none can while it lifts the limits.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held for what dropping it does")] NameLock);

/// The time that a daemon waits for the supervisor of the previous daemon to lift the limits.
const PATIENCE: Duration = Duration::from_secs(2);

impl Lock {
    /// Takes the lock of `device`.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has it.
    pub(crate) fn hold(device: &Device) -> Result<Self, Error> {
        NameLock::hold(&format!("forebay-tree-{}", device.name)).map(Self).map_err(|e| {
            match e.kind() {
                io::ErrorKind::AddrInUse => Error::InUse(device.name.clone()),
                _ => Error::system("reserving a device")(e),
            }
        })
    }

    /// Takes the lock of `device`, and tries for a while if another process has it.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process still has it then.
    pub(crate) fn wait(device: &Device) -> Result<Self, Error> {
        let start = Instant::now();
        loop {
            match Self::hold(device) {
                Err(Error::InUse(_)) if start.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(5));
                }
                result => return result,
            }
        }
    }
}
