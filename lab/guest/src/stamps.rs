//! Times of pieces of a TCP flow by kernel time stamps (Documentation/networking/timestamping):
//! when the program wrote a piece, when its last byte was first given to the packet scheduler, and
//! when it was acknowledged. Both spans include retransmissions, as an application experiences
//! them. TCP's own estimate excludes them.

use std::collections::HashMap;
use std::mem::zeroed;
use std::os::fd::RawFd;
use std::time::{SystemTime, UNIX_EPOCH};

/// Software time stamps, each with the number of its last byte and without the packet.
pub const FLAGS: u32 = SOFTWARE | OPT_ID | OPT_TSONLY;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;
/// The kind of a stamp in `ee_info` (linux/errqueue.h).
const SCHEDULED: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

/// The pieces of a flow in flight, and the times of acknowledged ones. A flow has no more in flight
/// than its buffer holds.
#[derive(Debug, Default)]
pub struct Stamps {
    /// The number of bytes written, of which the kernel counts the last 32 bits.
    written: u64,
    pending: HashMap<u32, Piece>,
    /// The times from the scheduler to the acknowledgement in nanoseconds.
    pub round_trips: Vec<u64>,
    /// The times from the program to the acknowledgement in nanoseconds.
    pub waits: Vec<u64>,
}

#[derive(Debug)]
struct Piece {
    written: u64,
    scheduled: Option<u64>,
}

impl Stamps {
    /// Discards all times measured so far.
    pub fn begin(&mut self) {
        self.round_trips.clear();
        self.waits.clear();
    }

    /// Writes `piece` to the socket as far as the kernel takes it; returns the number of bytes
    /// taken.
    pub fn send(&mut self, fd: RawFd, piece: &[u8]) -> u64 {
        let Some(taken) = send(fd, piece).filter(|n| *n > 0) else { return 0 };
        self.written += taken;
        let last = (self.written - 1) as u32;
        self.pending.insert(last, Piece { written: now(), scheduled: None });
        taken
    }

    /// Collects the stamps that wait at the socket.
    pub fn collect(&mut self, fd: RawFd) {
        while let Some((kind, key, time)) = next(fd) {
            match kind {
                SCHEDULED => {
                    if let Some(piece) = self.pending.get_mut(&key) {
                        // The first stamp belongs to the first transmission.
                        piece.scheduled.get_or_insert(time);
                    }
                }
                ACKNOWLEDGED => {
                    if let Some(piece) = self.pending.remove(&key) {
                        self.keep(&piece, time);
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the measurement: a piece in flight counts with the time until now.
    pub fn finish(&mut self) {
        let now = now();
        let pending = std::mem::take(&mut self.pending);
        for piece in pending.values() {
            self.keep(piece, now);
        }
    }

    fn keep(&mut self, piece: &Piece, until: u64) {
        self.waits.push(until.saturating_sub(piece.written));
        if let Some(scheduled) = piece.scheduled {
            self.round_trips.push(until.saturating_sub(scheduled));
        }
    }
}

/// The time of the stamps' clock.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[repr(C, align(8))]
struct Control([u8; 256]);

fn send(fd: RawFd, piece: &[u8]) -> Option<u64> {
    // SAFETY: the message points to `piece` and to a control buffer with room for one integer, both
    // of which live through the call; the macros stay inside the buffer.
    let sent = unsafe {
        let mut control = Control([0; 256]);
        let mut iov =
            libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_TIMESTAMPING;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<u32>().write_unaligned(TX_SCHED | TX_ACK);
        // It ends a record. Otherwise the following bytes would be joined to it and get its stamps.
        libc::sendmsg(fd, &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR)
    };
    u64::try_from(sent).ok()
}

/// Returns the next stamp: its kind, the number of its byte, and its time.
fn next(fd: RawFd) -> Option<(u32, u32, u64)> {
    let mut found = (None, None);
    // SAFETY: the message has no data and a control buffer that lives through the call; the macros
    // stay inside what the kernel filled, and each part is read as the type that its header tells.
    unsafe {
        let mut control = Control([0; 256]);
        let mut message: libc::msghdr = zeroed();
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        if libc::recvmsg(fd, &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) < 0 {
            return None;
        }
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                    let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                    found.0 = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                }
                (libc::IPPROTO_IP, libc::IP_RECVERR) => {
                    let e = libc::CMSG_DATA(header).cast::<libc::sock_extended_err>();
                    let e = e.read_unaligned();
                    found.1 = Some((e.ee_info, e.ee_data));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    // Other messages are skipped.
    let (kind, key) = found.1.unwrap_or((u32::MAX, 0));
    Some((kind, key, found.0.unwrap_or(0)))
}
