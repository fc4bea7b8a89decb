//! A port over AF_PACKET, for interfaces where XDP cannot be attached.
//!
//! The socket gets a copy of each frame; the kernel's own stack would handle the frame too. On a
//! port of a wire a [`Bypass`] drops it there. Without one, the stack drops frames that are not
//! addressed to this machine, as long as IP forwarding is off there.

use std::collections::VecDeque;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use forebay_system::NameLock;
use forebay_units::Nanos;

use crate::bpf;
use crate::bypass::{self, Bypass};
use crate::error::{Error, last};
use crate::netdev::Netdev;
use crate::pool::{Frame, Pool};
use crate::port::{Port, PortStats};
use crate::promiscuous::Promiscuous;

/// Frames per system call.
const BATCH: usize = 64;
/// Bytes that the kernel may hold for the socket: half a second at 96 Mbit/s in full frames.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// Bytes of a VLAN tag.
const VLAN_TAG: usize = 4;
/// Bytes of the two MAC addresses, which precede the tag.
const MACS: usize = 12;

/// A buffer for the control messages of a received frame, aligned for `cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// A port that reads and writes an AF_PACKET socket.
pub(crate) struct PacketPort {
    netdev: Netdev,
    socket: OwnedFd,
    stats: PortStats,
    /// The programs of a port of a wire; `None` if the kernel has no place for them.
    bypass: Option<Bypass>,
    /// The promiscuous mode of a port of a wire.
    promiscuous: Option<Promiscuous>,
    _lock: NameLock,
}

impl PacketPort {
    /// Opens a port on `netdev`, in promiscuous mode. `other` is the index of the wire's other
    /// interface, if this is a port of a wire.
    pub(crate) fn open(netdev: &Netdev, other: Option<u32>) -> Result<Self, Error> {
        let lock = netdev.reserve()?;
        let promiscuous = other.map(|_| Promiscuous::turn_on(netdev)).transpose()?;
        let by_box = promiscuous.as_ref().is_some_and(Promiscuous::is_by_box);
        let attach = |other| match Bypass::attach(netdev, other, by_box) {
            Ok(bypass) => Ok(Some(bypass)),
            Err(e @ Error::Permission(_)) => Err(e),
            Err(e) => {
                tracing::warn!(
                    "{}: no bypass over AF_PACKET ({e}): frames stop if this process dies",
                    netdev.name
                );
                Ok(None)
            }
        };
        let mut bypass = other.map_or(Ok(None), attach)?;
        if netdev.merges_packets() {
            tracing::warn!(
                "{0}: the kernel merges received packets (GRO), and those that exceed the MTU will \
                 be lost: ethtool -K {0} gro off lro off",
                netdev.name
            );
        }
        let socket = socket()?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &RECEIVE_BUFFER)?;
        let membership = libc::packet_mreq {
            mr_ifindex: netdev.index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        if let Some(bypass) = &bypass {
            bypass.guard(&socket)?;
        } else {
            bypass::remove_leftover(netdev.index)?;
        }
        bind(&socket, netdev, libc::ETH_P_ALL as u16)?;
        // With the program of a box over AF_XDP, frames would not reach this socket. Other programs
        // may stay: a receivebox's passes all frames.
        if bpf::remove_leftover(netdev.index)? {
            // A set-up that fails later must not cut a wire that was there before it.
            bypass.iter_mut().for_each(Bypass::keep);
        }
        let (netdev, stats) = (netdev.clone(), PortStats::default());
        Ok(Self { netdev, socket, stats, bypass, promiscuous, _lock: lock })
    }

    /// Leaves the programs of a wire on the interface when this process ends, however it ends.
    pub(crate) fn keep_program(&mut self) {
        self.bypass.iter_mut().for_each(Bypass::keep);
        self.promiscuous.iter_mut().for_each(Promiscuous::keep);
    }

    /// Writes a heartbeat.
    fn beat(&self, now: Nanos) {
        if let Some(bypass) = &self.bypass
            && let Err(e) = bypass.beat(now)
        {
            tracing::debug!("{}: cannot write a heartbeat: {e}", self.netdev.name);
        }
    }
}

impl Port for PacketPort {
    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) {
        let mut chunks = [0u32; BATCH];
        let mut wanted = 0;
        while wanted < BATCH.min(limit) {
            let Some(chunk) = pool.take() else { break };
            chunks[wanted] = chunk;
            wanted += 1;
        }
        // SAFETY: all-zero is valid for these plain C structures.
        let (mut iov, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut controls = [const { Control([0; 64]) }; BATCH];
        for i in 0..wanted {
            let (start, room) = pool.space(chunks[i]);
            // The headroom has room for a VLAN tag that the kernel took out and that goes back.
            iov[i] = libc::iovec { iov_base: start.cast(), iov_len: room };
            let header = &mut messages[i].msg_hdr;
            header.msg_iov = &mut iov[i];
            header.msg_iovlen = 1;
            header.msg_control = controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = controls[i].0.len();
        }
        // SAFETY: the first `wanted` messages point to buffers that live through the call.
        let got = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                wanted as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).unwrap_or(0);
        for i in 0..wanted {
            let message = &messages[i];
            if i >= got {
                pool.give(chunks[i]);
                continue;
            }
            let len = message.msg_len as usize;
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || len < MACS + 2 {
                self.stats.receive_lost += 1;
                pool.give(chunks[i]);
                continue;
            }
            let mut frame = Frame { addr: chunks[i] + Pool::HEADROOM, len: len as u16 };
            if let Some(tag) = vlan_tag(&message.msg_hdr) {
                frame.addr -= VLAN_TAG as u32;
                frame.len += VLAN_TAG as u16;
                let bytes = pool.bytes_mut(&mut frame);
                bytes.copy_within(VLAN_TAG..VLAN_TAG + MACS, 0);
                bytes[MACS..MACS + VLAN_TAG].copy_from_slice(&tag);
            }
            if self.netdev.is_local(pool.bytes(&frame)) {
                pool.release(frame);
                continue;
            }
            self.stats.received += 1;
            out.push(frame);
        }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>) {
        while !frames.is_empty() {
            // SAFETY: all-zero is valid for these plain C structures.
            let (mut iov, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
                unsafe { (zeroed(), zeroed()) };
            let count = frames.len().min(BATCH);
            for (i, frame) in frames.iter().take(BATCH).enumerate() {
                let bytes = pool.bytes(frame);
                iov[i] = libc::iovec {
                    iov_base: bytes.as_ptr().cast_mut().cast(),
                    iov_len: bytes.len(),
                };
                messages[i].msg_hdr.msg_iov = &mut iov[i];
                messages[i].msg_hdr.msg_iovlen = 1;
            }
            // SAFETY: the first `count` messages point to frames that stay in place meanwhile; the
            // kernel only reads them.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    count as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            if sent > 0 {
                self.stats.sent += sent as u64;
                for frame in frames.drain(..sent as usize) {
                    pool.release(frame);
                }
                continue;
            }
            match std::io::Error::last_os_error().raw_os_error() {
                // There is no room now: the frames stay for later.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return,
                // This frame can never be sent (it is too long, or the interface is gone), and must
                // not block the rest.
                _ => {
                    self.stats.send_lost += 1;
                    if let Some(frame) = frames.pop_front() {
                        pool.release(frame);
                    }
                }
            }
        }
    }

    fn report_alive(&mut self, now: Nanos) {
        self.beat(now);
    }

    fn bypass(&mut self) {
        self.beat(Nanos::ZERO);
    }

    fn unplug(&mut self) {
        self.bypass.iter_mut().for_each(Bypass::unplug);
        self.promiscuous.iter_mut().for_each(Promiscuous::give_back);
    }

    fn is_sending(&mut self, _: &mut Pool) -> bool {
        // The kernel copies each frame.
        false
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.socket.as_raw_fd()]
    }

    fn stats(&mut self) -> PortStats {
        // SAFETY: all-zero is a valid `tpacket_stats`.
        let mut dropped: libc::tpacket_stats = unsafe { zeroed() };
        let mut len = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: `dropped` has the size that `len` says.
        unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut dropped).cast(),
                &mut len,
            )
        };
        // Reading resets the kernel's counters.
        self.stats.receive_lost += u64::from(dropped.tp_drops);
        self.stats
    }

    fn describe(&self) -> String {
        "AF_PACKET".to_owned()
    }
}

/// Opens a socket for whole frames, which receives nothing until it is bound.
pub(crate) fn socket() -> Result<OwnedFd, Error> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; protocol 0 receives nothing until `bind` names another.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(last("opening an AF_PACKET socket"));
    }
    // SAFETY: `fd` is a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes `socket` send through `netdev` and receive frames of `protocol` from there; 0 means none.
pub(crate) fn bind(socket: &OwnedFd, netdev: &Netdev, protocol: u16) -> Result<(), Error> {
    // SAFETY: all-zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = netdev.index as i32;
    // SAFETY: `address` is a valid `sockaddr_ll` of the size given.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    if bound < 0 {
        return Err(last(format!("binding to interface `{}`", netdev.name)));
    }
    Ok(())
}

/// Sets an option of a socket.
pub(crate) fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> Result<(), Error> {
    // SAFETY: `value` is valid for reading its own size.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if done < 0 { Err(last("setting up an AF_PACKET socket")) } else { Ok(()) }
}

/// Returns the VLAN tag that the kernel took out of a frame, as it was on the wire.
fn vlan_tag(header: &libc::msghdr) -> Option<[u8; VLAN_TAG]> {
    // SAFETY: the kernel filled the control buffer that `header` points to, which is alive; the
    // CMSG macros stay inside it, and PACKET_AUXDATA carries a `tpacket_auxdata`.
    let aux = unsafe {
        let c = libc::CMSG_FIRSTHDR(header);
        if c.is_null()
            || (*c).cmsg_level != libc::SOL_PACKET
            || (*c).cmsg_type != libc::PACKET_AUXDATA
        {
            return None;
        }
        libc::CMSG_DATA(c).cast::<libc::tpacket_auxdata>().read_unaligned()
    };
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
        aux.tp_vlan_tpid
    } else {
        0x8100
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}
