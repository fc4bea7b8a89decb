//! Opening the ports of a box.

use crate::af_packet::PacketPort;
use crate::bpf;
use crate::error::Error;
use crate::netdev::Netdev;
use crate::pool::Pool;
use crate::port::{Method, Port};
use crate::xdp::XdpPort;

/// Opens ports on `netdevs` that share `pool`.
///
/// However this process ends, two ports over AF_XDP then pass their frames to each other, until the
/// next process opens them or [`remove_program`] takes the programs away. Any other number of ports
/// pass none.
///
/// # Errors
/// If an interface is missing, down, already in use or its frames do not fit; or if the kernel
/// refuses. Nothing stays changed then.
pub fn open_ports(
    netdevs: &[Netdev],
    method: Method,
    pool: &mut Pool,
) -> Result<Vec<Box<dyn Port>>, Error> {
    let mut opened = Vec::new();
    for (i, netdev) in netdevs.iter().enumerate() {
        netdev.check()?;
        let other = if netdevs.len() == 2 { Some(netdevs[1 - i].index) } else { None };
        opened.push(open_one(netdev, other, method, pool)?);
    }
    // Programs are attached last, when all sockets can take frames. Until then the programs of a
    // process that ended pass frames.
    for (port, netdev) in opened.iter_mut().zip(netdevs) {
        let Opened::Xdp(xdp) = port else { continue };
        if let Err(e) = xdp.attach() {
            fall_back(netdev, method, e)?;
            // The first port holds the interface's lock.
            *port = Opened::Closed;
            *port = Opened::Packet(PacketPort::open(netdev)?);
        }
    }
    Ok(opened.into_iter().filter_map(|port| port.into_port(netdevs.len() == 2)).collect())
}

/// Takes away the program that a box left on `netdev`. Its frames pass no longer. Returns whether
/// there was one.
///
/// # Errors
/// If a running process has the interface, or the kernel refuses.
pub fn remove_program(netdev: &Netdev) -> Result<bool, Error> {
    let _lock = netdev.reserve()?;
    let attached = bpf::attached(netdev.index)?;
    bpf::remove_leftover(netdev.index)?;
    Ok(attached.is_some_and(|(_, name)| name == bpf::PORT.name))
}

/// A port during the set-up.
enum Opened {
    Xdp(XdpPort),
    Packet(PacketPort),
    Closed,
}

impl Opened {
    fn into_port(self, is_wire: bool) -> Option<Box<dyn Port>> {
        match self {
            Self::Xdp(mut port) => {
                if is_wire {
                    port.keep_program();
                }
                Some(Box::new(port))
            }
            Self::Packet(port) => Some(Box::new(port)),
            Self::Closed => None,
        }
    }
}

fn open_one(
    netdev: &Netdev,
    other: Option<u32>,
    method: Method,
    pool: &mut Pool,
) -> Result<Opened, Error> {
    if method == Method::Packet {
        return PacketPort::open(netdev).map(Opened::Packet);
    }
    match XdpPort::open(netdev, other, pool) {
        Ok(port) => Ok(Opened::Xdp(port)),
        Err(e) => {
            fall_back(netdev, method, e)?;
            PacketPort::open(netdev).map(Opened::Packet)
        }
    }
}

/// Warns that AF_PACKET is used after AF_XDP failed with `error`; or returns the error if the
/// method does not allow that.
fn fall_back(netdev: &Netdev, method: Method, error: Error) -> Result<(), Error> {
    match error {
        e @ (Error::System { .. } | Error::Bpf { .. }) if method == Method::Auto => {
            tracing::warn!("{}: no AF_XDP ({e}); using AF_PACKET", netdev.name);
            Ok(())
        }
        e => Err(e),
    }
}
