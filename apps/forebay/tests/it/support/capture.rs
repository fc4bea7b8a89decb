//! Reads the frames of a device.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use forebay_dataplane::Netdev;
use forebay_test_support::namespace::{Namespace, within};

use crate::support::HANG_TIMEOUT;

/// Returns a socket whose datagrams are the frames of `device` of `place`.
pub(crate) fn frames_of(place: &Namespace, device: &'static str) -> UdpSocket {
    let socket = within(&place.0, move || {
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: takes integers; a descriptor that is returned is this function's own.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, every);
            assert!(socket >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(socket)
        };
        // SAFETY: all-zero bytes are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every as u16;
        address.sll_ifindex = Netdev::find(device).unwrap().index as i32;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address lives during the call, and `length` is its size.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        socket
    });
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    socket
}

/// Whether a frame has a UDP message over IPv4 to the port `to`.
pub(crate) fn is_message(frame: &[u8], to: u16) -> bool {
    frame.len() > 42
        && frame[12..14] == [8, 0]
        && frame[23] == 17
        && frame[36..38] == to.to_be_bytes()
}
