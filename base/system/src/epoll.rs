//! Waiting for many descriptors at once by epoll(7).

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What a descriptor is watched for. An event is reported once for each change (edge-triggered).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read, or a connection to accept.
    Data,
    /// Room to write, which a finished connection attempt has too.
    Room,
}

/// A set of watched descriptors.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Room for the events of one wait.
pub struct Events {
    list: Vec<libc::epoll_event>,
    filled: usize,
}

impl Epoll {
    /// Makes an empty set.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes a flag, and the new descriptor has no other owner.
        unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Watches `descriptor`, whose events carry `key`. The kernel forgets it when it is closed.
    ///
    /// # Errors
    /// If the kernel refuses, for example because the descriptor is watched already.
    pub fn add(&self, descriptor: &impl AsRawFd, key: u64, interest: Interest) -> io::Result<()> {
        let wanted = match interest {
            Interest::Data => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::Room => libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: (wanted | libc::EPOLLET) as u32, u64: key };
        // SAFETY: both descriptors are open, and `event` is valid during the call.
        let done = unsafe {
            let (set, fd) = (self.0.as_raw_fd(), descriptor.as_raw_fd());
            libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits at most `patience` for events. A signal ends the wait early, without events.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&self, events: &mut Events, patience: Duration) -> io::Result<()> {
        events.filled = 0;
        let millis = patience.as_millis().min(60_000) as libc::c_int;
        // SAFETY: the list is valid for its length, and the kernel writes at most so many events.
        let n = unsafe {
            let (list, room) = (events.list.as_mut_ptr(), events.list.len() as libc::c_int);
            libc::epoll_wait(self.0.as_raw_fd(), list, room, millis)
        };
        match usize::try_from(n) {
            Ok(n) => events.filled = n,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Events {
    /// Makes room for `n` events.
    pub fn new(n: usize) -> Self {
        // SAFETY: all-zero is a valid `epoll_event`.
        Self { list: vec![unsafe { zeroed() }; n.max(1)], filled: 0 }
    }

    /// The keys of the descriptors with events at the last wait.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.iter().map(|(key, _)| key)
    }

    /// The keys of the descriptors with events at the last wait, and whether the other side has
    /// closed the connection: then no later event reports what is still to be read.
    pub fn iter(&self) -> impl Iterator<Item = (u64, bool)> {
        let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        self.list[..self.filled].iter().map(move |event| (event.u64, event.events & ended != 0))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_event_is_reported_once_for_each_change() {
        let (reader, mut writer) = io::pipe().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::new(4);
        epoll.add(&reader, 7, Interest::Data).unwrap();
        assert!(epoll.add(&reader, 8, Interest::Data).is_err(), "watched already");
        let mut keys = || {
            epoll.wait(&mut events, Duration::ZERO).unwrap();
            events.keys().collect::<Vec<_>>()
        };
        assert_eq!(keys(), []);
        writer.write_all(b"a").unwrap();
        assert_eq!(keys(), [7]);
        assert_eq!(keys(), [], "the data is still there, but nothing changed");
        writer.write_all(b"b").unwrap();
        assert_eq!(keys(), [7]);
    }

    #[test]
    fn room_is_reported_at_once() {
        let (_reader, writer) = io::pipe().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::new(1);
        epoll.add(&writer, 3, Interest::Room).unwrap();
        epoll.wait(&mut events, Duration::from_secs(1)).unwrap();
        assert_eq!(events.keys().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn the_end_of_the_other_side_is_seen() {
        let (reader, writer) = io::pipe().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::new(1);
        epoll.add(&reader, 5, Interest::Data).unwrap();
        drop(writer);
        epoll.wait(&mut events, Duration::from_secs(1)).unwrap();
        assert_eq!(events.iter().collect::<Vec<_>>(), [(5, true)]);
    }
}
