//! One process of ours for each interface.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::error::Error;
use crate::netdev::Netdev;

/// Holds an interface against a second process of ours: a name that the kernel keeps for each
/// network namespace and forgets when this process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held for what dropping it does")] UnixDatagram);

impl Lock {
    pub(crate) fn hold(netdev: &Netdev) -> Result<Self, Error> {
        let name = format!("forebay-port-{}", netdev.name);
        SocketAddr::from_abstract_name(name)
            .and_then(|a| UnixDatagram::bind_addr(&a))
            .map(Self)
            .map_err(|e| {
                if e.kind() == std::io::ErrorKind::AddrInUse {
                    Error::InUse(netdev.name.clone())
                } else {
                    Error::system("reserving an interface", e)
                }
            })
    }
}
