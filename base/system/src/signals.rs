//! Orderly ends of a process: SIGTERM and SIGINT as a descriptor to wait for. SIGHUP asks to read
//! the configuration again.

use std::cell::Cell;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// While this exists, SIGTERM and SIGINT only make its descriptor readable.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
    /// Whether SIGHUP has arrived.
    reload: Cell<bool>,
}

impl Signals {
    /// Blocks the signals from now on, for this thread and those that it starts.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn block() -> io::Result<Self> {
        Self::of(&[libc::SIGTERM, libc::SIGINT])
    }

    /// Blocks SIGHUP too, for a process that can read its configuration again.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn block_with_reload() -> io::Result<Self> {
        Self::of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
    }

    fn of(signals: &[libc::c_int]) -> io::Result<Self> {
        // SAFETY: the set is initialised before it is used, and the calls only read it; the new
        // descriptor has no other owner.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&mut set);
            for signal in signals {
                libc::sigaddset(&mut set, *signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { descriptor: OwnedFd::from_raw_fd(fd), reload: Cell::new(false) })
        }
    }

    /// Returns the descriptor that becomes readable when a signal has arrived.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Whether a signal has arrived that ends the process.
    pub fn came(&self) -> bool {
        while let Some(signal) = self.next() {
            if signal != libc::SIGHUP {
                return true;
            }
            self.reload.set(true);
        }
        false
    }

    /// Whether SIGHUP was among the signals that [`Self::came`] has taken since the last call.
    pub fn ask_to_reload(&self) -> bool {
        self.reload.take()
    }

    /// Returns the next signal that has arrived.
    fn next(&self) -> Option<libc::c_int> {
        // SAFETY: all-zero is a valid `signalfd_siginfo`, and the read writes at most its size.
        unsafe {
            let mut info: libc::signalfd_siginfo = zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let read = libc::read(self.descriptor.as_raw_fd(), (&raw mut info).cast(), size);
            (read > 0).then_some(info.ssi_signo as libc::c_int)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(signal: libc::c_int) {
        // SAFETY: a signal to this thread alone, which blocks it.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), signal) }, 0);
    }

    #[test]
    fn only_an_end_is_an_end() {
        let signals = Signals::block_with_reload().unwrap();
        assert!(!signals.came() && !signals.ask_to_reload());
        send(libc::SIGHUP);
        assert!(!signals.came() && signals.ask_to_reload() && !signals.ask_to_reload());
        send(libc::SIGHUP);
        send(libc::SIGTERM);
        assert!(signals.came() && signals.ask_to_reload());
    }
}
