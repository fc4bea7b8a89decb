//! The ECN field of datagrams, on sending and on receipt.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use super::sockets;
use forebay_guest::sockopt;

/// The codepoints that are used here (RFC 3168 section 5, RFC 9331).
const ECT1: libc::c_int = 1;
const CE: u8 = 3;

/// Room for a control message with an int, which holds the field in IPv6; in IPv4 it is a byte.
const CONTROL: usize = 64;

/// Sets ECT(1) on all datagrams that `socket` sends, and requests the field of received ones.
pub(super) fn set_up(socket: &UdpSocket) -> io::Result<()> {
    let options = match socket.local_addr()? {
        SocketAddr::V4(_) => {
            [(libc::IPPROTO_IP, libc::IP_TOS, ECT1), (libc::IPPROTO_IP, libc::IP_RECVTOS, 1)]
        }
        SocketAddr::V6(_) => [
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, ECT1),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
        ],
    };
    options
        .into_iter()
        .try_for_each(|(level, name, value)| sockopt::set(socket, level, name, value))
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    /// The number of bytes that fit into the buffer.
    pub(super) len: usize,
    pub(super) from: SocketAddr,
    /// Whether it carries a congestion mark.
    pub(super) marked: bool,
}

/// A buffer with the size and alignment that control messages need.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Receives the next datagram of a socket after [`set_up`], if there is one already.
pub(super) fn receive(socket: &UdpSocket, buf: &mut [u8]) -> io::Result<Option<Came>> {
    let mut control = Control([0; CONTROL]);
    let mut vector = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: both consist of plain numbers and pointers, for which all zeros are valid values.
    let (mut address, mut message): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = size_of_val(&address) as libc::socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL;
    // SAFETY: the message points to an address, a vector of one buffer and a control buffer, all of
    // the stated sizes, which live through the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if len < 0 {
        let e = io::Error::last_os_error();
        return if sockets::is_passing(&e) { Ok(None) } else { Err(e) };
    }
    let Some(from) = socket_address(&address) else { return Ok(None) };
    let marked = field(&message) == Some(CE);
    Ok(Some(Came { len: len as usize, from, marked }))
}

/// Finds the ECN field among the control messages.
fn field(message: &libc::msghdr) -> Option<u8> {
    // SAFETY: the kernel filled in the message, and its control buffer lives as long as this
    // borrow. The macros stay within the length that the kernel wrote. The data of either kind of
    // message is at least one byte, and the first byte of an int holds the field on little-endian
    // machines, the whole int on any.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            match (header.cmsg_level, header.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => return Some(*data & 3),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.cast::<libc::c_int>().read_unaligned();
                    return Some((class & 3) as u8);
                }
                _ => at = libc::CMSG_NXTHDR(message, at),
            }
        }
    }
    None
}

fn socket_address(address: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let this: *const libc::sockaddr_storage = address;
    match i32::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which type it is, and a storage has room and alignment for
            // any.
            let v4 = unsafe { &*this.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*this.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram carries the field of its sender's socket, and the receiver reads it.
    #[test]
    fn the_ecn_field_is_received_in_both_ip_versions() {
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let [from, to] = [(); 2].map(|()| {
                let socket = UdpSocket::bind((ip, 0)).unwrap();
                set_up(&socket).unwrap();
                socket
            });
            let (level, name) = match ip {
                IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            let mut buf = [0; 64];
            assert_eq!(receive(&to, &mut buf).unwrap(), None, "nothing is there yet");
            for (ecn, marked) in [(ECT1, false), (0, false), (libc::c_int::from(CE), true)] {
                sockopt::set(&from, level, name, ecn).unwrap();
                from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
                let came = receive(&to, &mut buf).unwrap().unwrap();
                let expected = Came { len: 5, from: from.local_addr().unwrap(), marked };
                assert_eq!((came, &buf[..5]), (expected, &b"hello"[..]), "{ip} {ecn}");
            }
        }
    }
}
