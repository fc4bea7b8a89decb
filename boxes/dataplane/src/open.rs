//! Opening the ports of a box.

use crate::af_packet::{self, PacketPort};
use crate::bpf;
use crate::bypass::{self, Bypass};
use crate::error::Error;
use crate::netdev::Netdev;
use crate::pool::Pool;
use crate::port::{Method, Port};
use crate::promiscuous;
use crate::xdp::XdpPort;

/// Opens the two ports of a wire, which share `pool`. The first report that the process is alive
/// ([`Port::report_alive`]) makes frames pass through it.
///
/// However this process ends, the ports then pass their frames to each other, until the next
/// process opens them or [`remove_program`] takes the programs away. The interfaces become
/// promiscuous for as long.
///
/// # Errors
/// If an interface is missing, down, already in use or its frames do not fit; or if the kernel
/// refuses. Nothing stays changed then.
pub fn open_wire(
    netdevs: &[Netdev; 2],
    method: Method,
    pool: &mut Pool,
) -> Result<Vec<Box<dyn Port>>, Error> {
    let [first, second] = netdevs;
    let mut opened =
        open(&[(first, Some(second.index)), (second, Some(first.index))], method, pool)?;
    for port in &mut opened {
        match port {
            Opened::Xdp(port) => port.keep_program(),
            Opened::Packet(port) => port.keep_program(),
            Opened::Closed => {}
        }
    }
    Ok(opened.into_iter().filter_map(Opened::into_port).collect())
}

/// Opens ports on `netdevs` that share `pool`, and of which none passes frames when this process
/// has ended.
///
/// # Errors
/// As [`open_wire`].
pub fn open_ports(
    netdevs: &[Netdev],
    method: Method,
    pool: &mut Pool,
) -> Result<Vec<Box<dyn Port>>, Error> {
    let alone: Vec<_> = netdevs.iter().map(|netdev| (netdev, None)).collect();
    Ok(open(&alone, method, pool)?.into_iter().filter_map(Opened::into_port).collect())
}

/// Opens a port on each interface. The second value is the index of the interface to which frames
/// pass when this process has ended.
fn open(
    ends: &[(&Netdev, Option<u32>)],
    method: Method,
    pool: &mut Pool,
) -> Result<Vec<Opened>, Error> {
    let mut opened = Vec::new();
    for &(netdev, other) in ends {
        netdev.check()?;
        opened.push(open_one(netdev, other, method, pool)?);
    }
    // Programs are attached last, when all sockets can take frames. Until then the programs of a
    // process that ended pass frames.
    for (port, &(netdev, other)) in opened.iter_mut().zip(ends) {
        let Opened::Xdp(xdp) = port else { continue };
        if let Err(e) = xdp.attach() {
            fall_back(netdev, method, e)?;
            // The first port holds the interface's lock.
            *port = Opened::Closed;
            *port = Opened::Packet(PacketPort::open(netdev, other)?);
        }
    }
    Ok(opened)
}

/// Checks that the kernel has the parts of a wire over AF_PACKET that pass frames on when the
/// process is dead, by attaching them to `netdev` for a moment.
///
/// # Errors
/// If a part is missing.
pub fn try_bypass(netdev: &Netdev) -> Result<(), Error> {
    let bypass = Bypass::attach(netdev, netdev.index, false)?;
    bypass.guard(&af_packet::socket()?)
}

/// Takes away the programs that a box left on `netdev`. Its frames pass no longer. Returns whether
/// there were any.
///
/// # Errors
/// If a running process has the interface, or the kernel refuses.
pub fn remove_program(netdev: &Netdev) -> Result<bool, Error> {
    let _lock = netdev.reserve()?;
    let is_promiscuous = promiscuous::is_leftover(netdev)?;
    let had_program = bpf::remove_leftover(netdev.index)?;
    let had_filter = bypass::remove_leftover(netdev.index)?;
    if is_promiscuous {
        promiscuous::switch(&netdev.name, false)?;
    }
    Ok(had_program || had_filter)
}

/// A port during the set-up.
enum Opened {
    Xdp(XdpPort),
    Packet(PacketPort),
    Closed,
}

impl Opened {
    fn into_port(self) -> Option<Box<dyn Port>> {
        match self {
            Self::Xdp(port) => Some(Box::new(port)),
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
        return PacketPort::open(netdev, other).map(Opened::Packet);
    }
    match XdpPort::open(netdev, other, pool) {
        Ok(port) => Ok(Opened::Xdp(port)),
        Err(e) => {
            fall_back(netdev, method, e)?;
            PacketPort::open(netdev, other).map(Opened::Packet)
        }
    }
}

/// Warns that AF_PACKET is used after AF_XDP failed with `error`; or returns the error if the
/// method does not allow that.
fn fall_back(netdev: &Netdev, method: Method, error: Error) -> Result<(), Error> {
    match error {
        e @ (Error::System { .. } | Error::Bpf { .. } | Error::Verifier { .. })
            if method == Method::Auto =>
        {
            tracing::warn!("{}: no AF_XDP ({e}); using AF_PACKET", netdev.name);
            Ok(())
        }
        e => Err(e),
    }
}
