//! The control channel between the two boxes: a UDP socket that never blocks.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use crate::Error;

/// Larger than any message, so that one that is too long is seen to be so.
const MAX_DATAGRAM: usize = 256;

pub(crate) struct Channel(UdpSocket);

/// A datagram that came.
pub(crate) struct Datagram {
    buffer: [u8; MAX_DATAGRAM],
    len: usize,
    /// Who says it sent it.
    pub(crate) from: SocketAddr,
}

impl Datagram {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Channel {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|source| Error::Listen { address, source })?;
        Ok(Self(socket))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The next datagram that has come.
    pub(crate) fn receive(&self) -> Option<Datagram> {
        let mut buffer = [0; MAX_DATAGRAM];
        // An error (the other box's port was closed a moment ago) says nothing about the next
        // datagram, so a few are passed over.
        for _ in 0..16 {
            match self.0.recv_from(&mut buffer) {
                Ok((len, from)) => return Some(Datagram { buffer, len, from }),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// Sends a datagram, or does not: the protocol lives with loss.
    pub(crate) fn send(&self, message: &[u8], to: SocketAddr) {
        if let Err(e) = self.0.send_to(message, to) {
            tracing::debug!("sending to {to}: {e}");
        }
    }
}
