//! A Unix socket of a running box, for commands of its own machine.
//!
//! The socket has an abstract name, so that no file stays behind. Only root and the user of the box
//! get an answer.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// A socket that listens; none if it could not be opened.
pub(crate) struct LocalSocket(Option<UnixListener>);

impl LocalSocket {
    /// Opens the socket of this process whose name begins with `prefix`. A box runs without one
    /// too: then `command` will not see it.
    pub(crate) fn open(prefix: &str, command: &str) -> Self {
        let open = || -> io::Result<UnixListener> {
            let name = format!("{prefix}{}", std::process::id());
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let warn = |e: &_| tracing::warn!("`{command}` will not see this process: {e}");
        Self(open().inspect_err(warn).ok())
    }

    /// Returns the descriptor that becomes readable when somebody has connected.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Returns the next connection of somebody who may have an answer.
    pub(crate) fn accept(&self) -> Option<UnixStream> {
        let listener = self.0.as_ref()?;
        loop {
            let (stream, _) = listener.accept().ok()?;
            if may_ask(&stream) && stream.set_nonblocking(true).is_ok() {
                return Some(stream);
            }
        }
    }
}

/// Whether the process at the other end is root's or has the user of this one.
pub(crate) fn may_ask(stream: &UnixStream) -> bool {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of_val(&credentials) as libc::socklen_t;
    // SAFETY: the option writes a `ucred`, whose length is given.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    answer == 0 && [0, forebay_system::private::user()].contains(&credentials.uid)
}
