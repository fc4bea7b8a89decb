//! Waiting until a descriptor is ready or a time is reached.

use std::os::fd::RawFd;

use forebay_units::Nanos;

use crate::clock;

/// Asks the kernel to end timed waits of this thread on time. The default slack is 50 us, half the
/// time of a full packet at 96 Mbit/s.
pub fn precise_timers() {
    // SAFETY: no pointers are involved; the call changes only this thread's timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// A set of descriptors to wait for.
#[derive(Debug, Default)]
pub struct Waiter {
    fds: Vec<libc::pollfd>,
}

impl Waiter {
    /// Makes a set that waits for `fds` to become readable.
    pub fn new(fds: impl IntoIterator<Item = RawFd>) -> Self {
        let pollfd = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        Self { fds: fds.into_iter().map(pollfd).collect() }
    }

    /// Sets what ends the wait at the descriptor at `index`: data to read, room to write, or both.
    pub fn set(&mut self, index: usize, data: bool, room: bool) {
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        self.fds[index].events = flag(data, libc::POLLIN) | flag(room, libc::POLLOUT);
    }

    /// Blocks until a descriptor is ready or `deadline` is reached. It returns at once for a
    /// deadline in the past, and early when a signal arrives.
    pub fn wait_until(&mut self, deadline: Nanos) {
        let left = deadline.saturating_sub(clock::now());
        let timeout = libc::timespec {
            tv_sec: (left.0 / 1_000_000_000).min(3600) as libc::time_t,
            tv_nsec: (left.0 % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: `fds` is a valid array of its length, `timeout` lives through the call, and no
        // signal mask is given.
        unsafe {
            libc::ppoll(
                self.fds.as_mut_ptr(),
                self.fds.len() as libc::nfds_t,
                &timeout,
                std::ptr::null(),
            )
        };
    }

    /// Whether the descriptor at `index` was ready when the last wait ended.
    pub fn is_ready(&self, index: usize) -> bool {
        self.fds[index].revents != 0
    }
}
