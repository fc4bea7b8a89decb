//! The control channel between the two boxes: a UDP socket that never blocks.

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use forebay_system::clock;
use forebay_units::Nanos;
use forebay_wire::feedback::{BundleId, ReceiveError, bundle_of};

use crate::Error;

/// Larger than any message, so that one that is too long is seen to be so.
const MAX_DATAGRAM: usize = 256;
/// One that is said to have waited longer than this did not: somebody set the clock.
const LONGEST_WAIT: Nanos = Nanos::from_secs(1);

/// The request of that name (`linux/sockios.h`), which `libc` does not have.
const SIOCGSTAMPNS: libc::Ioctl = 0x8907;

pub(crate) struct Channel {
    socket: UdpSocket,
    /// Another version of the protocol was complained of: once is enough, as anybody may send
    /// datagrams.
    complained: Cell<bool>,
}

/// A datagram that came.
pub(crate) struct Datagram {
    buffer: [u8; MAX_DATAGRAM],
    len: usize,
    /// Who says it sent it.
    pub(crate) from: SocketAddr,
    /// When the kernel took it in. That this process got to it only later is no delay of the path.
    pub(crate) came: Nanos,
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
            // From the first question on the kernel notes when datagrams come.
            let _ = stamp(&socket);
            Ok(socket)
        };
        let socket = open().map_err(|source| Error::Listen { address, source })?;
        Ok(Self { socket, complained: Cell::new(false) })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The next datagram that has come.
    pub(crate) fn receive(&self) -> Option<Datagram> {
        let mut buffer = [0; MAX_DATAGRAM];
        // An error (the other box's port was closed a moment ago) says nothing about the next
        // datagram, so a few are passed over.
        for _ in 0..16 {
            match self.socket.recv_from(&mut buffer) {
                Ok((len, from)) => return Some(Datagram { buffer, len, from, came: self.came() }),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// When the datagram came that was just received.
    fn came(&self) -> Nanos {
        let (now, wall) = clock::both();
        stamp(&self.socket).map_or(now, |at| came(at, now, wall))
    }

    /// The bundle that a datagram says it is about, if it is one of this protocol.
    pub(crate) fn bundle_of(&self, datagram: &Datagram) -> Option<BundleId> {
        bundle_of(datagram.bytes())
            .inspect_err(|e| {
                if matches!(e, ReceiveError::Version(_)) && !self.complained.replace(true) {
                    tracing::warn!("a message from {}: {e}", datagram.from);
                }
            })
            .ok()
    }

    /// Sends a datagram, or does not: the protocol lives with loss.
    pub(crate) fn send(&self, message: &[u8], to: SocketAddr) {
        if let Err(e) = self.socket.send_to(message, to) {
            tracing::debug!("sending to {to}: {e}");
        }
    }
}

/// What the wall clock called `at`, now that the two clocks are at `now` and `wall`.
fn came(at: Nanos, now: Nanos, wall: Nanos) -> Nanos {
    let waited = wall.checked_sub(at).filter(|time| *time < LONGEST_WAIT);
    now.saturating_sub(waited.unwrap_or_default())
}

/// When the datagram came that was received last, by the wall clock; `None` before there was one.
fn stamp(socket: &UdpSocket) -> Option<Nanos> {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is what this request writes, and lives longer than the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS, &raw mut at) };
    (answer == 0).then(|| clock::nanos(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_says_nothing() {
        let ms = Nanos::from_millis;
        assert_eq!(came(ms(70_000), ms(500), ms(70_003)), ms(497));
        assert_eq!(came(ms(70_003), ms(500), ms(70_000)), ms(500), "set back");
        assert_eq!(came(ms(70_000), ms(9_000), ms(71_000)), ms(9_000), "set forward");
        assert_eq!(came(ms(70_000), ms(2), ms(70_003)), Nanos::ZERO, "before this machine's start");
    }

    /// Two datagrams are sent, and read 2 ms later, one after the other: whether their times are
    /// those of the sending. They are later if the kernel had other things to do.
    fn came_when_sent(channel: &Channel) -> bool {
        let to = channel.socket.local_addr().unwrap();
        let begun = clock::now();
        channel.send(b"one", to);
        channel.send(b"two", to);
        let sent = clock::now();
        while clock::now() < sent + Nanos::from_millis(2) {}
        let slack = Nanos::from_micros(500);
        let when = [b"one", b"two"].map(|text| {
            let received = std::iter::repeat_with(|| channel.receive()).flatten().next();
            let datagram = received.expect("an iterator without an end");
            assert_eq!(datagram.bytes(), text);
            datagram.came
        });
        when.iter().all(|at| begun <= *at + slack && *at <= sent + slack)
    }

    #[test]
    fn a_datagram_came_when_it_came() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(channel) = Channel::bind(host.parse().unwrap()) else { continue };
            assert!((0..200).any(|_| came_when_sent(&channel)));
        }
    }
}
