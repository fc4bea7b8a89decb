//! One owner of a device's tree.

use std::io;

use forebay_system::NameLock;

use crate::{Device, Error};

/// Holds a device's tree. The kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held for what dropping it does")] NameLock);

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
}
