//! The control channel between the two boxes: a non-blocking UDP socket.

mod by_address;
mod endpoint;
mod undelivered;

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use forebay_system::clock;
use forebay_units::{Bytes, Nanos};
use forebay_wire::feedback::{BundleId, ReceiveError, bundle_of};
use socket2::{Domain, Socket, Type};

pub(crate) use by_address::ByAddress;
pub(crate) use endpoint::{Endpoint, Move};
pub(crate) use undelivered::Undelivered;

use crate::Error;

/// The size of the buffer: larger than any message, so that a message that is too long is noticed.
const MAX_DATAGRAM: usize = 256;
/// The longest credible wait of a datagram. A longer one means that the clock was set.
const MAX_WAIT: Nanos = Nanos::from_secs(1);

/// The time for which the old key is used beside a new one while the other box does not answer
/// under the new one.
pub(crate) const BOTH_KEYS: Nanos = Nanos::from_secs(60);

/// The shortest time between two warnings about another protocol version.
const WARNING_INTERVAL: Nanos = Nanos::from_secs(60);

/// The request `SIOCGSTAMPNS` (`linux/sockios.h`), which `libc` lacks.
const SIOCGSTAMPNS: libc::Ioctl = 0x8907;

/// Returns the length of the IP packet of a message of `length` bytes to or from `other`.
pub(crate) fn packet_length(length: usize, other: SocketAddr) -> Bytes {
    let ip = if other.is_ipv4() { 20 } else { 40 };
    Bytes((length + ip + 8) as u64)
}

/// Opens a UDP socket at `address`. All addresses of IPv6 stand for those of IPv4 too, whatever the
/// machine's setting (`net.ipv6.bindv6only`).
fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    if !takes_both(address) {
        return UdpSocket::bind(address);
    }
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    socket.set_only_v6(false)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Whether a socket at `address` takes messages of both IP versions.
fn takes_both(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Returns an IPv4 address that a socket of IPv6 reports in its own form.
fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Returns an IPv4 address as a socket of IPv6 takes it.
fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(v4) => SocketAddrV6::new(v4.to_ipv6_mapped(), address.port(), 0, 0).into(),
        IpAddr::V6(_) => address,
    }
}

/// The socket of a box for messages of other boxes.
pub(crate) struct Channel {
    socket: UdpSocket,
    /// Whether it is a socket of IPv6 that takes messages of IPv4 too.
    takes_both: bool,
    /// The time before which no further warning about another protocol version is logged. Anyone
    /// may send datagrams, so a forged one neither fills the log nor hides the warning about a peer
    /// for longer than [`WARNING_INTERVAL`].
    quiet_until: Cell<Nanos>,
}

/// A received datagram.
pub(crate) struct Datagram {
    buffer: [u8; MAX_DATAGRAM],
    len: usize,
    /// The source address. It is that of the other box only if the message is authentic.
    pub(crate) from: SocketAddr,
    /// The time at which the kernel received it: a delay of this process is no delay of the path.
    pub(crate) came: Nanos,
}

/// What [`Channel::receive`] returns.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and most are datagrams")]
pub(crate) enum Incoming {
    Datagram(Datagram),
    Undelivered(Undelivered),
}

impl Datagram {
    /// Returns the message.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Channel {
    /// Opens a channel that listens at `address`.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        Self::bind_or_take(address, None)
    }

    /// Opens a channel that listens at `address`: `taken` if it is given, which listens there.
    pub(crate) fn bind_or_take(
        address: SocketAddr,
        taken: Option<UdpSocket>,
    ) -> Result<Self, Error> {
        let open = || -> io::Result<UdpSocket> {
            let socket = taken.map_or_else(|| open(address), Ok)?;
            socket.set_nonblocking(true)?;
            // After the first request the kernel stamps datagrams with their time of arrival.
            let _ = stamp(&socket);
            undelivered::request(&socket)?;
            Ok(socket)
        };
        let socket = open().map_err(|source| Error::Listen { address, source })?;
        Ok(Self { socket, takes_both: takes_both(address), quiet_until: Cell::new(Nanos::ZERO) })
    }

    /// Returns the descriptor that becomes readable when datagrams have arrived.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Returns the socket, to hand it to another process.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives the next datagram, or the report of one that was not delivered; `None` if there is
    /// neither.
    pub(crate) fn receive(&self) -> Option<Incoming> {
        let mut buffer = [0; MAX_DATAGRAM];
        // An error says nothing about the next datagram, so a few are passed over. Their reports
        // are in the queue of errors.
        for _ in 0..16 {
            match self.socket.recv_from(&mut buffer) {
                Ok((len, from)) => {
                    let (came, from) = (self.came(), plain(from));
                    return Some(Incoming::Datagram(Datagram { buffer, len, from, came }));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        let undelivered = undelivered::take(&self.socket)?;
        Some(Incoming::Undelivered(Undelivered { to: plain(undelivered.to), ..undelivered }))
    }

    /// Returns the time of arrival of the datagram that was just received.
    fn came(&self) -> Nanos {
        let (now, wall) = clock::both();
        stamp(&self.socket).map_or(now, |at| came(at, now, wall))
    }

    /// Returns the bundle that a datagram names.
    ///
    /// # Errors
    /// If the datagram is not of this version of the protocol. Another version is also logged.
    pub(crate) fn bundle_of(&self, datagram: &Datagram) -> Result<BundleId, ReceiveError> {
        bundle_of(datagram.bytes()).inspect_err(|e| {
            if matches!(e, ReceiveError::Version(_)) && self.may_warn(datagram.came) {
                tracing::warn!("a message from {}: {e}", datagram.from);
            }
        })
    }

    /// Whether a warning may be logged at `now`; if so, the next one has to wait.
    fn may_warn(&self, now: Nanos) -> bool {
        let may = now >= self.quiet_until.get();
        if may {
            self.quiet_until.set(now + WARNING_INTERVAL);
        }
        may
    }

    /// Sends a datagram. A failure is only logged, since the protocol tolerates loss.
    pub(crate) fn send(&self, message: &[u8], to: SocketAddr) {
        // The first attempt may return the error of an earlier datagram, which had another
        // destination.
        let to = if self.takes_both { mapped(to) } else { to };
        let sent = self.socket.send_to(message, to).or_else(|_| self.socket.send_to(message, to));
        if let Err(e) = sent {
            tracing::debug!("cannot send to {to}: {e}");
        }
    }
}

/// Converts the wall-clock time `at` to the monotonic clock, given the current times of both
/// clocks.
fn came(at: Nanos, now: Nanos, wall: Nanos) -> Nanos {
    let waited = wall.checked_sub(at).filter(|time| *time < MAX_WAIT);
    now.saturating_sub(waited.unwrap_or_default())
}

/// Returns the wall-clock arrival time of the last received datagram; `None` before the first.
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
    fn a_wall_clock_that_was_set_is_ignored() {
        let ms = Nanos::from_millis;
        assert_eq!(came(ms(70_000), ms(500), ms(70_003)), ms(497));
        assert_eq!(came(ms(70_003), ms(500), ms(70_000)), ms(500), "set back");
        assert_eq!(came(ms(70_000), ms(9_000), ms(71_000)), ms(9_000), "set forward");
        assert_eq!(came(ms(70_000), ms(2), ms(70_003)), Nanos::ZERO, "before this machine's start");
    }

    /// Sends two datagrams and reads them 2 ms later; returns whether their times are those of
    /// sending. They are later if the kernel was busy.
    fn came_when_sent(channel: &Channel) -> bool {
        let to = channel.socket.local_addr().unwrap();
        let begun = clock::now();
        channel.send(b"one", to);
        channel.send(b"two", to);
        let sent = clock::now();
        while clock::now() < sent + Nanos::from_millis(2) {}
        let slack = Nanos::from_micros(500);
        let when = [b"one", b"two"].map(|text| {
            let datagram = loop {
                if let Some(Incoming::Datagram(datagram)) = channel.receive() {
                    break datagram;
                }
            };
            assert_eq!(datagram.bytes(), text);
            datagram.came
        });
        when.iter().all(|at| begun <= *at + slack && *at <= sent + slack)
    }

    #[test]
    fn a_forged_datagram_does_not_use_up_the_warning() {
        let channel = Channel::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = |seconds| channel.may_warn(Nanos::from_secs(seconds));
        let warnings: Vec<_> = (0..=130).filter(|second| at(*second)).collect();
        assert_eq!(warnings, [0, 60, 120]);
    }

    #[test]
    fn a_socket_at_all_addresses_of_ipv6_talks_to_both_ip_versions() {
        let Ok(channel) = Channel::bind("[::]:0".parse().unwrap()) else { return };
        let port = channel.socket.local_addr().unwrap().port();
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(other) = UdpSocket::bind(host) else { continue };
            let from = other.local_addr().unwrap();
            other.send_to(b"ping", (from.ip(), port)).unwrap();
            // The loopback device delivers before `send_to` returns.
            let Some(Incoming::Datagram(ping)) = channel.receive() else { panic!("{host}") };
            assert_eq!((ping.bytes(), ping.from), (&b"ping"[..], from));
            channel.send(b"pong", ping.from);
            let mut buffer = [0; 9];
            assert_eq!(other.recv_from(&mut buffer).unwrap().1.ip(), from.ip());
            drop(other);
            channel.send(b"to nobody", from);
            let Some(Incoming::Undelivered(report)) = channel.receive() else { panic!("{host}") };
            assert_eq!(report, Undelivered { to: from, error: libc::ECONNREFUSED });
        }
    }

    #[test]
    fn a_datagram_has_its_time_of_arrival() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(channel) = Channel::bind(host.parse().unwrap()) else { continue };
            assert!((0..200).any(|_| came_when_sent(&channel)));
        }
    }
}
