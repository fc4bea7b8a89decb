//! A port: where a box's frames come in and go out, in batches.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use crate::af_packet::PacketPort;
use crate::error::Error;
use crate::netdev::Netdev;
use crate::pool::{Frame, Pool};
use crate::xdp::XdpPort;

/// How a port reaches its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// AF_XDP, or AF_PACKET where that cannot be had.
    #[default]
    Auto,
    /// AF_XDP.
    Xdp,
    /// AF_PACKET: works on every interface, at a higher cost per packet.
    Packet,
}

/// What a port has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames handed to the box.
    pub received: u64,
    /// Frames handed to the kernel for sending.
    pub sent: u64,
    /// Frames that arrived and were lost before the box saw them: no free chunk, a full ring, a
    /// frame larger than a chunk.
    pub receive_lost: u64,
    /// Frames that the kernel would not send.
    pub send_lost: u64,
}

/// Frames in and out of one interface, in batches.
pub trait Port {
    /// Appends at most `limit` received frames to `out`. Never blocks.
    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize);

    /// Sends frames from the front of `frames` for as long as there is room; the rest stay, in
    /// order, and nothing is lost. Never blocks.
    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>);

    /// Descriptors that become readable when frames have arrived, and writable when there is room.
    fn descriptors(&self) -> Vec<RawFd>;

    /// What was counted so far.
    fn stats(&mut self) -> PortStats;

    /// How frames are moved, for people: `AF_XDP (native)`.
    fn describe(&self) -> String;
}

/// Opens ports on `netdevs` that share `pool`, each the other's way out should this process die
/// (only for exactly two).
///
/// # Errors
/// If an interface is missing, down, already in use or its frames do not fit; or if the kernel
/// refuses. Nothing stays changed then.
pub fn open(
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
