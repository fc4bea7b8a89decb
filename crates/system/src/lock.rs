//! Locks between processes, by name.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// A name that one process holds in its network namespace. The kernel frees the name when the
/// process ends, however it ends.
#[derive(Debug)]
pub struct NameLock(#[allow(dead_code, reason = "held for what dropping it does")] UnixDatagram);

impl NameLock {
    /// Takes the lock `name`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another process holds the name.
    pub fn hold(name: &str) -> io::Result<Self> {
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Self)
    }
}
