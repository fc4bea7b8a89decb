use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use forebay_dataplane::senders::L4S_MARK;
use socket2::{Domain, Protocol, Socket, Type};

use super::spec::Tcp;
use forebay_guest::sockopt;

/// The number of connections that may wait to be accepted: as many as a traffic has.
const BACKLOG: i32 = 1_024;
/// A pacing rate in bytes per second that no path reaches. All ones would switch pacing off.
const NO_LIMIT: u64 = 1 << 40;
/// The time for a connection, long enough for three lost SYNs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a listener whose connections have `tcp`'s settings (accepted sockets inherit them).
pub(super) fn listen(address: SocketAddr, tcp: &Tcp) -> io::Result<TcpListener> {
    let socket = socket(address, tcp)?;
    socket.set_reuse_address(true)?;
    bind(&socket, address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts `n` connections.
pub(super) fn accept(listener: &TcpListener, n: u32) -> io::Result<Vec<TcpStream>> {
    (0..n)
        .map(|_| {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
        .collect()
}

/// Opens `n` connections to `server` at the same time; one by one, each would take a round trip.
pub(super) fn connect(server: SocketAddr, n: u32, tcp: &Tcp) -> io::Result<Vec<TcpStream>> {
    connect_from(&[], server, n, tcp)
}

/// Like [`connect`], from these addresses in turn, or from any address if there are none.
pub(super) fn connect_from(
    from: &[IpAddr],
    server: SocketAddr,
    n: u32,
    tcp: &Tcp,
) -> io::Result<Vec<TcpStream>> {
    let from = |flow: u32| from.get(flow as usize % from.len().max(1)).copied();
    thread::scope(|scope| {
        let attempts: Vec<_> = (0..n)
            .map(|flow| scope.spawn(move || attempt(from(flow), server, tcp, CONNECT_TIMEOUT)))
            .collect();
        attempts.into_iter().map(join).collect()
    })
}

/// Opens a connection to `server` and gives up after `patience`.
pub(super) fn connect_one(
    server: SocketAddr,
    tcp: &Tcp,
    patience: Duration,
) -> io::Result<TcpStream> {
    attempt(None, server, tcp, patience)
}

/// Opens a connection. This end has the server's congestion control too, although it sends little:
/// DCTCP requests ECN in the SYN, and its receiver echoes each mark (RFC 8257 section 3.2).
fn attempt(
    from: Option<IpAddr>,
    server: SocketAddr,
    tcp: &Tcp,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = socket(server, tcp)?;
    if let Some(from) = from {
        bind(&socket, SocketAddr::new(from, 0))?;
    }
    socket
        .connect_timeout(&server.into(), patience)
        .map_err(|e| named(e, "connecting to", server))?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Creates a TCP socket of `address`'s family.
fn socket(address: SocketAddr, tcp: &Tcp) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    let name = &tcp.congestion;
    socket.set_tcp_congestion(name.as_bytes()).map_err(|e| {
        let what =
            format!("congestion control {name}: {e} (is the kernel module tcp_{name} there?)");
        io::Error::new(e.kind(), what)
    })?;
    if tcp.l4s {
        socket.set_mark(L4S_MARK)?;
    }
    if tcp.paced {
        // With any limit the kernel paces, at the rate of the window and at most at the limit.
        let (level, option) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
        sockopt::set(&socket, level, option, NO_LIMIT)?;
    }
    Ok(socket)
}

/// Creates a UDP socket at `address`.
pub(super) fn udp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    bind(&socket, address)?;
    Ok(socket)
}

/// The unspecified address and port in the family of `peer`.
pub(super) fn any_like(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
    }
}

fn bind(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.bind(&address.into()).map_err(|e| named(e, "binding", address))
}

fn named(e: io::Error, what: &str, address: SocketAddr) -> io::Error {
    io::Error::new(e.kind(), format!("{what} {address}: {e}"))
}

/// Returns the result of a thread; a panic continues here.
pub(super) fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether a read or write failed temporarily and may be repeated.
pub(super) fn is_passing(e: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), Interrupted | TimedOut | WouldBlock)
}
