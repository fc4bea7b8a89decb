//! A check over UDP, and the other end of one.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use forebay_queue::Ecn;
use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

use crate::message::{Echo, Probe};
use crate::prober::{Flow, Options, Prober};
use crate::report::Report;

/// The port on which reflectors listen by default. No service is registered for it.
pub const PORT: u16 = 28_317;
/// How often either end looks whether it is to stop.
const LOOK: Nanos = Nanos::from_millis(100);
/// A receive buffer, for datagrams that the kernel puts together.
const BUFFER: usize = 1 << 16;
/// Socket buffers, for a queue of 50 ms at 1 Gbit/s.
const SOCKET_BUFFER: usize = 6 << 20;

/// A UDP socket that sends and receives codepoints.
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    buffer: Vec<u8>,
}

impl Socket {
    fn bind(to: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(to)?;
        // The kernel's limits may allow less, which shows as loss at high rates only.
        let sized = socket2::SockRef::from(&socket);
        let _ = sized.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = sized.set_send_buffer_size(SOCKET_BUFFER);
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state, buffer: vec![0; BUFFER] })
    }

    /// Sends `contents`. A full socket buffer loses them, as a full queue would.
    fn send(&self, to: SocketAddr, ecn: Ecn, contents: &[u8]) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(crate::message::bits(ecn)),
            contents,
            segment_size: None,
            src_ip: None,
        };
        match self.state.try_send((&self.socket).into(), &transmit) {
            Err(e) if is_passing(&e) => Ok(()),
            result => result,
        }
    }

    /// Calls `each` for the datagrams that are here, with their source and codepoint. Returns
    /// whether there were any.
    fn receive(&mut self, mut each: impl FnMut(SocketAddr, Ecn, &[u8])) -> io::Result<bool> {
        let mut meta = [RecvMeta::default()];
        let received = {
            let mut buffers = [IoSliceMut::new(&mut self.buffer)];
            self.state.recv((&self.socket).into(), &mut buffers, &mut meta)
        };
        match received {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(e) if is_passing(&e) => return Ok(false),
            Err(e) => return Err(e),
        }
        let [RecvMeta { addr, len, stride, ecn, .. }] = meta;
        let ecn = ecn.map_or(Ecn::NotEct, |ecn| match ecn {
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        });
        for datagram in self.buffer[..len].chunks(stride.max(1)) {
            each(addr, ecn, datagram);
        }
        Ok(true)
    }
}

/// Returns whether `e` says that nothing is wrong with the socket: nothing to read, no room to
/// write, or an answer of the network to an earlier datagram.
fn is_passing(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}

/// Answers probes at `address` until `stop` returns true.
///
/// # Errors
/// Fails if the address cannot be used or the socket fails.
pub fn reflect(address: SocketAddr, stop: impl Fn() -> bool) -> io::Result<()> {
    let mut socket = Socket::bind(address)?;
    let mut waiter = Waiter::new([socket.socket.as_raw_fd()]);
    let mut answers = Vec::new();
    while !stop() {
        waiter.wait_until(clock::now() + LOOK);
        let answer = |from, ecn, datagram: &[u8]| {
            if let Ok(echo) = Echo::of(clock::now(), ecn, datagram) {
                answers.push((from, echo));
            }
        };
        socket.receive(answer)?;
        for (to, echo) in answers.drain(..) {
            // No answer can go to port 0 or to a broadcast address. The socket can still send to
            // others.
            let _ = socket.send(to, Ecn::NotEct, &echo.encode());
        }
    }
    Ok(())
}

/// Checks the path to the reflector at `address`. Returns `None` if `stop` returned true before the
/// end. `progress` is called with the share that is done whenever that changes.
///
/// # Errors
/// Fails if no socket can be had or one fails.
pub fn check(
    address: SocketAddr,
    options: Options,
    stop: impl Fn() -> bool,
    mut progress: impl FnMut(f64),
) -> io::Result<Option<Report>> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let (mut classic, mut l4s) = (Socket::bind(any)?, Socket::bind(any)?);
    precise_timers();
    let mut waiter = Waiter::new([&classic, &l4s].map(|socket| socket.socket.as_raw_fd()));
    let mut prober = Prober::new(options, clock::now());
    let mut payload = vec![0; usize::from(u16::MAX)];
    let mut shown = -1.0;
    while let Some(next) = prober.next() {
        if stop() {
            return Ok(None);
        }
        for socket in [&mut classic, &mut l4s] {
            let mut more = true;
            while more {
                more = socket.receive(|from, _, datagram| {
                    if let Some(echo) = Echo::decode(datagram).ok().filter(|_| same(from, address))
                    {
                        prober.on_echo(clock::now(), &echo);
                    }
                })?;
            }
        }
        while let Some(datagram) = prober.poll(clock::now()) {
            let socket = if datagram.flow == Flow::L4s { &l4s } else { &classic };
            let payload = &mut payload[..datagram.len];
            Probe { session: prober.session(), sequence: datagram.sequence }.encode(payload);
            socket.send(address, datagram.ecn, payload)?;
        }
        if prober.progress() > shown {
            shown = prober.progress();
            progress(shown);
        }
        waiter.wait_until(next.min(clock::now() + LOOK));
    }
    Ok(Some(prober.report()))
}

fn same(from: SocketAddr, address: SocketAddr) -> bool {
    from.port() == address.port() && from.ip().to_canonical() == address.ip().to_canonical()
}
