//! The kernel's queue of errors of a UDP socket: datagrams that the network could not deliver
//! (`IP_RECVERR` in ip(7)).

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use socket2::SockAddr;

/// A datagram that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    /// The destination of the datagram.
    pub(crate) to: SocketAddr,
    /// The system's error number. It is not authenticated: anybody on the path can cause it.
    pub(crate) error: i32,
}

/// Has the kernel keep errors for [`take`].
pub(super) fn request(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => set(socket, libc::SOL_IP, libc::IP_RECVERR),
        SocketAddr::V6(_) => {
            // For messages of IPv4, if it sends them.
            let _ = set(socket, libc::SOL_IP, libc::IP_RECVERR);
            set(socket, libc::SOL_IPV6, libc::IPV6_RECVERR)
        }
    }
}

/// Turns an option on.
fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option takes an integer of this length, which lives longer than the call.
    let answer = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the oldest error from the queue.
pub(super) fn take(socket: &UdpSocket) -> Option<Undelivered> {
    // The part of a `sock_extended_err` that precedes the reporting router's address.
    let mut control = MaybeUninit::<[u64; 16]>::zeroed();
    let mut error = None;
    // SAFETY: the closure passes the storage to recvmsg, which writes an address of the length that
    // it returns. All pointers are to values of this function, with their lengths.
    let (_, address) = unsafe {
        SockAddr::try_init(|storage, length| {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_name = storage.cast();
            message.msg_namelen = *length;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control);
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            if libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) < 0 {
                return Err(io::Error::last_os_error());
            }
            *length = message.msg_namelen;
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(part) = header.as_ref() {
                let kind = (part.cmsg_level, part.cmsg_type);
                if kind == (libc::SOL_IP, libc::IP_RECVERR)
                    || kind == (libc::SOL_IPV6, libc::IPV6_RECVERR)
                {
                    let data = libc::CMSG_DATA(header).cast::<libc::sock_extended_err>();
                    error = i32::try_from(data.read_unaligned().ee_errno).ok();
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
            Ok(())
        })
    }
    .ok()?;
    Some(Undelivered { to: address.as_socket()?, error: error? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_to_a_closed_port_is_reported_with_its_destination() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(host) else { continue };
            request(&socket).unwrap();
            assert_eq!(take(&socket), None);
            let closed = UdpSocket::bind(host).unwrap().local_addr().unwrap();
            socket.send_to(b"to nobody", closed).unwrap();
            // The loopback device delivers the report before `send_to` returns.
            let expected = Undelivered { to: closed, error: libc::ECONNREFUSED };
            assert_eq!(take(&socket), Some(expected));
            assert_eq!(take(&socket), None);
        }
    }
}
