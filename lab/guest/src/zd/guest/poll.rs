//! Readiness of many sockets (epoll(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A set of sockets with a number each.
pub(super) struct Poll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: takes an integer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; 1024] })
    }

    /// Adds a socket with the `events` to report; closing the socket removes it.
    pub(super) fn add(&self, socket: &impl AsRawFd, events: i32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        let add = libc::EPOLL_CTL_ADD;
        // SAFETY: `event` is valid for reading.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), add, socket.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for at most `patience` milliseconds and returns the events with the sockets' numbers.
    pub(super) fn wait(&mut self, patience: i32) -> impl Iterator<Item = (i32, u64)> {
        let most = self.events.len() as i32;
        // SAFETY: a valid array of its length.
        let got = unsafe {
            libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), most, patience)
        };
        let got = usize::try_from(got).unwrap_or_default();
        self.events[..got].iter().map(|event| (event.events as i32, event.u64))
    }
}
