//! Opening the ports of a box.

use crate::af_packet::PacketPort;
use crate::error::Error;
use crate::netdev::Netdev;
use crate::pool::Pool;
use crate::port::{Method, Port};
use crate::xdp::XdpPort;

/// Opens ports on `netdevs` that share `pool`. Should this process die, two ports pass their frames
/// to each other; any other number pass none.
///
/// # Errors
/// If an interface is missing, down, already in use or its frames do not fit; or if the kernel
/// refuses. Nothing stays changed then.
pub fn open_ports(
    netdevs: &[Netdev],
    method: Method,
    pool: &mut Pool,
) -> Result<Vec<Box<dyn Port>>, Error> {
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for (i, netdev) in netdevs.iter().enumerate() {
        netdev.check()?;
        let other = if netdevs.len() == 2 { Some(netdevs[1 - i].index) } else { None };
        ports.push(open_one(netdev, other, method, pool)?);
    }
    Ok(ports)
}

fn open_one(
    netdev: &Netdev,
    other: Option<u32>,
    method: Method,
    pool: &mut Pool,
) -> Result<Box<dyn Port>, Error> {
    if method == Method::Packet {
        return Ok(Box::new(PacketPort::open(netdev)?));
    }
    match XdpPort::open(netdev, other, pool) {
        Ok(port) => Ok(Box::new(port)),
        Err(e @ (Error::System { .. } | Error::Bpf { .. })) if method == Method::Auto => {
            tracing::warn!("{}: no AF_XDP ({e}); using AF_PACKET", netdev.name);
            Ok(Box::new(PacketPort::open(netdev)?))
        }
        Err(e) => Err(e),
    }
}
