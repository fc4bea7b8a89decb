//! Frames handed to an interface's queueing discipline one by one, as the kernel's own stack does.
//!
//! A [`Port`](crate::Port) keeps what the kernel has no room for. Here that is the answer that is
//! wanted: a frame which the discipline refuses is lost, and the caller hears of it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::af_packet::{bind, set, socket};
use crate::error::Error;
use crate::netdev::Netdev;

/// What the kernel may hold for one socket: all that it lets be asked for, since here the queueing
/// discipline's limit is to bind and not the socket's.
const SEND_BUFFER: libc::c_int = libc::c_int::MAX / 2;

/// A way into one interface's queueing discipline.
#[derive(Debug)]
pub struct Injector {
    socket: OwnedFd,
}

impl Injector {
    /// For frames out of `netdev`. It receives nothing.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(netdev: &Netdev) -> Result<Self, Error> {
        let socket = socket()?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)?;
        bind(&socket, netdev, 0)?;
        Ok(Self { socket })
    }

    /// Hands `frame` over. `false` if the queueing discipline dropped it at once; one that it drops
    /// later, or another one that it drops for this one, it does not tell of.
    ///
    /// # Errors
    /// If it never got there: the interface is down, the frame too long, the socket's buffer full.
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
        // What NET_XMIT_DROP becomes on its way up.
        match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            e => Err(e),
        }
    }
}
