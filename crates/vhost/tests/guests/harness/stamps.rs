//! Round-trip times by the kernel's own stamps: from when a piece's last byte is first given to the
//! packet scheduler, so that the guest's queues count, until it is acknowledged. A retransmission is
//! part of it, as it is of what an application waits for; TCP's own estimate leaves those out.

use std::collections::HashMap;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, RawFd};

/// Stamps by software, each with the number of its last byte, and without the packet.
pub(super) const FLAGS: u32 = SOFTWARE | OPT_ID | OPT_TSONLY;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;
/// In `ee_info`: which stamp it is (linux/errqueue.h).
const SCHEDULED: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

/// What of a flow is under way, and what came of the rest.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    scheduled: HashMap<u32, u64>,
    samples: Vec<u64>,
}

impl Stamps {
    /// What was measured before does not count.
    pub(super) fn begin(&mut self) {
        self.samples.clear();
    }

    /// Takes in the stamps that wait at the socket.
    pub(super) fn collect(&mut self, fd: RawFd) {
        while let Some((kind, key, time)) = next(fd) {
            match kind {
                SCHEDULED => {
                    // The first is of the first transmission.
                    self.scheduled.entry(key).or_insert(time);
                }
                ACKNOWLEDGED => {
                    if let Some(sent) = self.scheduled.remove(&key) {
                        self.samples.push(time.saturating_sub(sent));
                    }
                }
                _ => {}
            }
        }
    }

    /// All round trips; of what is still under way, how long it has been so.
    pub(super) fn finish(mut self) -> Vec<u64> {
        let now = now();
        self.samples.extend(self.scheduled.values().map(|sent| now.saturating_sub(*sent)));
        self.samples
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_nanos() as u64
}

pub(super) fn set<T>(socket: &impl AsRawFd, level: i32, option: i32, value: &T) {
    let value: *const T = value;
    // SAFETY: `value` is valid for reading its own size.
    let done = unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, value.cast(), len)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[repr(C, align(8))]
struct Control([u8; 256]);

/// Hands `piece` to the kernel, as far as it takes it, with stamps for it.
pub(super) fn send(fd: RawFd, piece: &[u8]) {
    // SAFETY: the message points to `piece` and to a control buffer with room for one integer, both
    // of which live through the call; the macros stay inside the buffer.
    unsafe {
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
        // What there is no room for is offered again later.
        // The end of a record: else what follows would be joined to it, and have its stamps instead.
        libc::sendmsg(fd, &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR);
    }
}

/// The next stamp: which, of which byte, and when.
fn next(fd: RawFd) -> Option<(u32, u32, u64)> {
    let mut found = (None, None);
    // SAFETY: the message has no data and a control buffer that lives through the call; the macros stay
    // inside what the kernel filled, and each part is read as the type that its header tells.
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
    // A message that is no stamp is passed over.
    let (kind, key) = found.1.unwrap_or((u32::MAX, 0));
    Some((kind, key, found.0.unwrap_or(0)))
}
