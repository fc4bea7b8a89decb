//! A port over AF_XDP: an XDP program passes frames to sockets, one for each receive queue.

mod assembly;
mod pieces;
mod queues;
mod ring;
mod socket;

use std::collections::VecDeque;
use std::os::fd::{AsFd, RawFd};

use forebay_system::NameLock;
use forebay_units::Nanos;
use libbpf_rs::{Object, Xdp, XdpFlags};

use self::queues::Queues;
use self::socket::XdpSocket;
use crate::bpf;
use crate::bypass;
use crate::error::Error;
use crate::heartbeat;
use crate::netdev::Netdev;
use crate::pool::{Frame, Pool};
use crate::port::{Port, PortStats};
use crate::promiscuous::Promiscuous;

/// Chunks that all receive queues of a port hold for frames that arrive. The boxes' pools have room
/// for these of two ports beside frames in transit.
const FILL: u32 = 4096;
/// The smallest number of chunks of a receive queue.
const MIN_FILL: u32 = 64;

/// A port that reads and writes AF_XDP sockets.
pub(crate) struct XdpPort {
    /// The attachment, which is dropped first: without the program no new frames arrive. `None`
    /// before [`XdpPort::attach`].
    attachment: Option<Attachment>,
    queues: Queues,
    netdev: Netdev,
    /// Whether the interface has the program of a process that ended, which passes frames.
    replaces: bool,
    /// The promiscuous mode of a port of a wire.
    promiscuous: Option<Promiscuous>,
    object: Object,
    _lock: NameLock,
}

impl XdpPort {
    /// Opens the sockets. Frames arrive from [`XdpPort::attach`] on.
    pub(crate) fn open(
        netdev: &Netdev,
        other: Option<u32>,
        pool: &mut Pool,
    ) -> Result<Self, Error> {
        let lock = netdev.reserve()?;
        let replaces = match bpf::attached(netdev.index)? {
            // No process has the interface's lock, so that process has ended.
            Some((_, name)) if name == bpf::PORT.name => true,
            // The program ends with its process, so that process is alive.
            Some((_, name)) if name == bpf::RECEIVEBOX.name => {
                return Err(Error::InUse(netdev.name.clone()));
            }
            Some((id, _)) => {
                return Err(Error::ForeignProgram { interface: netdev.name.clone(), id });
            }
            None => false,
        };
        let settings = [u32::from(other.is_some()), u32::from(bpf::has_coarse_clock())];
        let object = bpf::PORT.load(|open| {
            if pool.is_for_jumbo_frames() {
                bpf::accept_fragments(open);
            }
            bpf::set_constants(open, &settings)
        })?;
        let promiscuous = other.map(|_| Promiscuous::turn_on(netdev)).transpose()?;
        let by_box = promiscuous.as_ref().is_some_and(Promiscuous::is_by_box);
        bpf::set_own(&object, netdev, by_box)?;
        if let Some(other) = other {
            let peer = bpf::map(&object, "other_port")?;
            bpf::update(&peer, &0u32.to_ne_bytes(), &other.to_ne_bytes())?;
        }
        let mut sockets = Vec::new();
        for queue in 0..netdev.queues {
            let depth = (FILL / netdev.queues).clamp(MIN_FILL, socket::RING);
            sockets.push(XdpSocket::open(netdev.index, queue, depth, pool)?);
        }
        let map = bpf::map(&object, "sockets")?;
        for (queue, socket) in sockets.iter().enumerate() {
            bpf::update(&map, &(queue as u32).to_ne_bytes(), &socket.fd().to_ne_bytes())?;
        }
        Ok(Self {
            attachment: None,
            queues: Queues { sockets, stats: PortStats::default() },
            netdev: netdev.clone(),
            replaces,
            promiscuous,
            object,
            _lock: lock,
        })
    }

    /// Attaches the program. One of a process that ended is replaced without a gap.
    pub(crate) fn attach(&mut self) -> Result<(), Error> {
        self.attachment = Some(Attachment::new(&self.netdev, &self.object, self.replaces)?);
        // XDP comes first, so that the filter of a box over AF_PACKET no longer gets frames.
        bypass::remove_leftover(self.netdev.index)?;
        Ok(())
    }

    /// Leaves the program on the interface when this process ends, however it ends.
    pub(crate) fn keep_program(&mut self) {
        if let Some(attachment) = &mut self.attachment {
            attachment.stays = true;
        }
        self.promiscuous.iter_mut().for_each(Promiscuous::keep);
    }
}

impl Port for XdpPort {
    fn queues(&self) -> usize {
        self.queues.sockets.len()
    }

    fn split(&mut self, parts: usize) -> Vec<Box<dyn Port>> {
        let parts = self.queues.split(parts);
        parts.into_iter().map(|queues| Box::new(queues) as Box<dyn Port>).collect()
    }

    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) {
        self.queues.receive(pool, out, limit);
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>) {
        self.queues.send(pool, frames);
    }

    fn report_alive(&mut self, now: Nanos) {
        if let Err(e) = heartbeat::beat(&self.object, now) {
            tracing::debug!("{}: cannot write a heartbeat: {e}", self.netdev.name);
        }
    }

    fn bypass(&mut self) {
        self.report_alive(Nanos::ZERO);
    }

    fn unplug(&mut self) {
        if let Some(attachment) = &mut self.attachment {
            attachment.stays = false;
        }
        self.promiscuous.iter_mut().for_each(Promiscuous::give_back);
    }

    fn is_sending(&mut self, pool: &mut Pool) -> bool {
        self.queues.is_sending(pool)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.queues.descriptors()
    }

    fn stats(&mut self) -> PortStats {
        self.queues.stats()
    }

    fn describe(&self) -> String {
        let is_native = self.attachment.as_ref().is_some_and(|a| a.native);
        let mode = match (is_native, self.queues.is_zero_copy()) {
            (true, true) => "AF_XDP (native, zero copy)",
            (true, false) => "AF_XDP (native, copy)",
            (false, _) => "AF_XDP (generic)",
        };
        mode.to_owned()
    }
}

/// The attachment of the program to the interface.
///
/// If the program stays when this value is dropped, it passes frames to the other port as soon as
/// the sockets are closed, as it does after the death of the process.
struct Attachment {
    ifindex: i32,
    native: bool,
    stays: bool,
    program: std::os::fd::OwnedFd,
}

impl Attachment {
    fn new(netdev: &Netdev, object: &Object, replaces: bool) -> Result<Self, Error> {
        let program = bpf::program(object, bpf::PORT.name)?;
        let wrap = |e| Error::bpf(format!("attaching XDP to `{}`", netdev.name), e);
        let fd = program.as_fd().try_clone_to_owned().map_err(|e| Error::system("dup", e))?;
        let ifindex = netdev.index as i32;
        let xdp = Xdp::new(fd.as_fd());
        // The kernel refuses a second program in another mode, so one that is replaced keeps its.
        let flags = |mode: XdpFlags| {
            if replaces { mode } else { mode | XdpFlags::UPDATE_IF_NOEXIST }
        };
        let native = xdp.attach(ifindex, flags(XdpFlags::DRV_MODE)).is_ok();
        if !native {
            xdp.attach(ifindex, flags(XdpFlags::SKB_MODE)).map_err(wrap)?;
        }
        // A set-up that fails later must not cut a wire that was there before it.
        Ok(Self { ifindex, native, stays: replaces, program: fd })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let xdp = Xdp::new(self.program.as_fd());
        let mode = if self.native { XdpFlags::DRV_MODE } else { XdpFlags::SKB_MODE };
        if let Err(e) = xdp.detach(self.ifindex, mode) {
            tracing::debug!("cannot detach the XDP program of a port: {e}");
        }
    }
}
