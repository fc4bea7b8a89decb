//! One owner of a device's tree.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Device, Error};

/// Holds a device's tree: a name that the kernel keeps for each network namespace and forgets when
/// this process ends, however it ends. So a supervisor that gets it knows that no daemon has adopted
/// the tree, and none can while it lifts the limits.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held for what dropping it does")] UnixDatagram);

/// How long a daemon waits for the supervisor of the one before to have lifted the limits.
const PATIENCE: Duration = Duration::from_secs(2);

impl Lock {
    /// # Errors
    /// [`Error::InUse`] if another process has it.
    pub(crate) fn hold(device: &Device) -> Result<Self, Error> {
        let name = format!("forebay-tree-{}", device.name);
        SocketAddr::from_abstract_name(name)
            .and_then(|a| UnixDatagram::bind_addr(&a))
            .map(Self)
            .map_err(|e| match e.kind() {
                io::ErrorKind::AddrInUse => Error::InUse(device.name.clone()),
                _ => Error::system("reserving a device")(e),
            })
    }

    /// As [`Self::hold`], which is tried for a while.
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
