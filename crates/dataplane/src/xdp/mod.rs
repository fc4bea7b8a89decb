//! A port over AF_XDP: an XDP program passes frames to sockets, one for each receive queue.

mod ring;
mod socket;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, RawFd};

use forebay_system::NameLock;
use libbpf_rs::{Object, Xdp, XdpFlags};

use self::socket::XdpSocket;
use crate::bpf;
use crate::error::Error;
use crate::netdev::Netdev;
use crate::pool::{Frame, Pool};
use crate::port::{Port, PortStats};

/// A port that reads and writes AF_XDP sockets.
pub(crate) struct XdpPort {
    /// The attachment, which is dropped first: without the program no new frames arrive.
    _attachment: Attachment,
    sockets: Vec<XdpSocket>,
    stats: PortStats,
    mode: &'static str,
    _object: Object,
    _lock: NameLock,
}

impl XdpPort {
    pub(crate) fn open(
        netdev: &Netdev,
        other: Option<u32>,
        pool: &mut Pool,
    ) -> Result<Self, Error> {
        let lock = netdev.reserve()?;
        match bpf::remove_leftover(netdev.index)? {
            // The program ends with its process, so that process is alive.
            Some((_, name)) if name == bpf::RECEIVEBOX.name => {
                return Err(Error::InUse(netdev.name.clone()));
            }
            Some((id, _)) => {
                return Err(Error::ForeignProgram { interface: netdev.name.clone(), id });
            }
            None => {}
        }
        let object = bpf::PORT.load(|_| Ok(()))?;
        let mut mac = [0; 8];
        mac[..6].copy_from_slice(&netdev.mac);
        bpf::update(&bpf::map(&object, "own_mac")?, &0u32.to_ne_bytes(), &mac)?;
        let own = bpf::map(&object, "own_addresses")?;
        for address in &netdev.addresses {
            bpf::update(&own, &v6_mapped(*address), &[1])?;
        }
        if let Some(other) = other {
            let peer = bpf::map(&object, "other_port")?;
            bpf::update(&peer, &0u32.to_ne_bytes(), &other.to_ne_bytes())?;
        }
        let mut sockets = Vec::new();
        for queue in 0..netdev.queues {
            sockets.push(XdpSocket::open(netdev.index, queue, pool)?);
        }
        let map = bpf::map(&object, "sockets")?;
        for (queue, socket) in sockets.iter().enumerate() {
            bpf::update(&map, &(queue as u32).to_ne_bytes(), &socket.fd().to_ne_bytes())?;
        }
        // The program is attached last, when the sockets can take frames.
        let attachment = Attachment::new(netdev, &object)?;
        let mode = match (attachment.native, sockets.iter().all(|s| s.zero_copy)) {
            (true, true) => "AF_XDP (native, zero copy)",
            (true, false) => "AF_XDP (native, copy)",
            (false, _) => "AF_XDP (generic)",
        };
        let stats = PortStats::default();
        Ok(Self { _attachment: attachment, sockets, stats, mode, _object: object, _lock: lock })
    }
}

impl Port for XdpPort {
    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) {
        let share = limit.div_ceil(self.sockets.len());
        for socket in &mut self.sockets {
            self.stats.received += socket.receive(pool, out, share);
        }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>) {
        // One transmit queue keeps the order of everything that a box sends.
        if let Some(socket) = self.sockets.first_mut()
            && (!frames.is_empty() || socket.is_sending())
        {
            self.stats.sent += socket.send(pool, frames);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(XdpSocket::fd).collect()
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.stats;
        for socket in &self.sockets {
            let (receive, send) = socket.lost();
            stats.receive_lost += receive;
            stats.send_lost += send;
        }
        stats
    }

    fn describe(&self) -> String {
        self.mode.to_owned()
    }
}

/// Returns an address as IPv6; IPv4 as `::ffff:a.b.c.d`.
fn v6_mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

/// The attachment of the program to the interface. Dropping it detaches the program. If the process
/// is killed, the program stays and passes frames to the other port.
struct Attachment {
    ifindex: i32,
    native: bool,
    program: std::os::fd::OwnedFd,
}

impl Attachment {
    fn new(netdev: &Netdev, object: &Object) -> Result<Self, Error> {
        let program = bpf::program(object, bpf::PORT.name)?;
        let wrap = |e| Error::bpf(format!("attaching XDP to `{}`", netdev.name), e);
        let fd = program.as_fd().try_clone_to_owned().map_err(|e| Error::system("dup", e))?;
        let ifindex = netdev.index as i32;
        let xdp = Xdp::new(fd.as_fd());
        let native = xdp.attach(ifindex, XdpFlags::UPDATE_IF_NOEXIST | XdpFlags::DRV_MODE).is_ok();
        if !native {
            xdp.attach(ifindex, XdpFlags::UPDATE_IF_NOEXIST | XdpFlags::SKB_MODE).map_err(wrap)?;
        }
        Ok(Self { ifindex, native, program: fd })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let xdp = Xdp::new(self.program.as_fd());
        let mode = if self.native { XdpFlags::DRV_MODE } else { XdpFlags::SKB_MODE };
        if let Err(e) = xdp.detach(self.ifindex, mode) {
            tracing::debug!("cannot detach the XDP program of a port: {e}");
        }
    }
}
