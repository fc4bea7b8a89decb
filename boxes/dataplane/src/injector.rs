//! Passing frames to an interface's queueing discipline one by one, as the kernel's own stack does.
//!
//! A [`Port`](crate::Port) keeps frames that the kernel has no room for. An [`Injector`] does not:
//! a frame that the discipline refuses is lost, and the caller is told.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::af_packet::{bind, set, socket};
use crate::error::Error;
use crate::netdev::Netdev;

/// Bytes that the kernel may hold for the socket: the largest value that it takes, so that the
/// queueing discipline's limit counts and not the socket's.
const SEND_BUFFER: libc::c_int = libc::c_int::MAX / 2;

/// A socket that sends through one interface's queueing discipline.
#[derive(Debug)]
pub struct Injector {
    socket: OwnedFd,
}

impl Injector {
    /// Opens a socket that sends through `netdev` and receives nothing.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(netdev: &Netdev) -> Result<Self, Error> {
        let socket = socket()?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)?;
        bind(&socket, netdev, 0)?;
        Ok(Self { socket })
    }

    /// Passes `frame` to the queueing discipline; `false` if the discipline dropped it at once. The
    /// kernel does not report a later drop, or the drop of another frame in its place.
    ///
    /// # Errors
    /// If the frame did not get there: the interface is down, the frame is too long, or the
    /// socket's buffer is full.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        // SAFETY: the kernel reads `frame`, which is alive, for its length.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if sent >= 0 {
            return Ok(true);
        }
        // The kernel reports NET_XMIT_DROP as ENOBUFS.
        match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            e => Err(e),
        }
    }
}
