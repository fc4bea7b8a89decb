//! Orderly ends of a process: SIGTERM and SIGINT as a descriptor to wait for.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// While this exists, SIGTERM and SIGINT only make its descriptor readable.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks the signals from now on, for this thread and those that it starts.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn block() -> io::Result<Self> {
        // SAFETY: the set is initialised before it is used, and the calls only read it; the new
        // descriptor has no other owner.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Returns the descriptor that becomes readable when a signal has arrived.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether a signal has arrived.
    pub fn came(&self) -> bool {
        // SAFETY: all-zero is a valid `signalfd_siginfo`, and the read writes at most its size.
        unsafe {
            let mut info: libc::signalfd_siginfo = zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) > 0
        }
    }
}
