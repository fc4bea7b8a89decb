//! The connections of routers that report their routes by BMP (RFC 7854).
//!
//! Each listener and each connection has a thread. A router has at most one connection: a new one
//! ends the one before, and other addresses are turned away, so there are few threads. BMP has no
//! authentication. What a router may do is told by its address, and a TCP connection cannot come
//! from another one.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::clock;
use crate::learn::{Learning, Ticket};

/// The interval at which a thread checks whether something is due, or whether it should stop.
const RETRY: Duration = Duration::from_millis(100);
/// The octets that are read at once. The table is locked while they are taken, and meanwhile flow
/// records wait in their socket's buffer.
const PIECE: usize = 16 << 10;
/// The connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// The time without traffic after which TCP asks whether a router is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The time in milliseconds since 1970 at the start, and since then a clock that does not step.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    base: u64,
    start: Instant,
}

impl Steady {
    /// Starts the clock with the time of day.
    pub fn start() -> Self {
        Self { base: clock::now(), start: Instant::now() }
    }

    /// Returns the present time.
    pub fn now(&self) -> u64 {
        let since = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.base.saturating_add(since)
    }
}

/// Returns listeners at all of `addresses`. IPv6 listeners do not take IPv4, so that both families
/// can have the same port.
///
/// # Errors
/// If an address cannot be used: the address and the cause.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, (SocketAddr, io::Error)> {
    let open = |address: &SocketAddr| {
        let open = || {
            let socket =
                Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_reuse_address(true)?;
            socket.bind(&(*address).into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        };
        open().map_err(|e| (*address, e))
    };
    addresses.iter().map(open).collect()
}

/// Starts the threads of `listeners` in `scope`. They end when `stop` is set.
pub fn serve<'scope>(
    scope: &'scope Scope<'scope, '_>,
    listeners: &'scope [TcpListener],
    learning: &'scope Learning,
    clock: Steady,
    stop: &'scope AtomicBool,
) {
    for listener in listeners {
        scope.spawn(move || accept(scope, listener, learning, clock, stop));
    }
    scope.spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(RETRY);
            learning.tick(clock.now());
        }
    });
}

fn accept<'scope>(
    scope: &'scope Scope<'scope, '_>,
    listener: &'scope TcpListener,
    learning: &'scope Learning,
    clock: Steady,
    stop: &'scope AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, from)) => {
                let Some(ticket) = learning.connect(from.ip(), clock.now()) else { continue };
                let connection = thread::Builder::new().name("bmp".to_owned());
                let spawned = connection.spawn_scoped(scope, move || {
                    connection_of(stream, learning, ticket, clock, stop);
                });
                if let Err(e) = spawned {
                    learning.end(ticket, &format!("there is no thread for it: {e}"), clock.now());
                }
            }
            Err(e) => {
                let waits = matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionAborted
                );
                if !waits {
                    tracing::warn!("cannot accept BMP connections: {e}");
                }
                thread::sleep(RETRY);
            }
        }
    }
}

fn connection_of(
    mut stream: TcpStream,
    learning: &Learning,
    ticket: Ticket,
    clock: Steady,
    stop: &AtomicBool,
) {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    let ready = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(RETRY)))
        .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive))
        // A router only writes, so that it may not see that the connection was closed. With a reset
        // it does at its next message, and not at the one after that.
        .and_then(|()| SockRef::from(&stream).set_linger(Some(Duration::ZERO)));
    if let Err(e) = ready {
        return learning.end(ticket, &format!("the connection cannot be used: {e}"), clock.now());
    }
    let mut octets = vec![0; PIECE];
    while !stop.load(Ordering::Relaxed) && learning.is_current(ticket) {
        match stream.read(&mut octets) {
            Ok(0) => return learning.end(ticket, "the router closed the connection", clock.now()),
            Ok(length) => {
                if !learning.receive(ticket, &octets[..length], clock.now()) {
                    return;
                }
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {}
                _ => return learning.end(ticket, &e.to_string(), clock.now()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::net::Ipv4Addr;

    use forebay_routes::table::Limits;

    use super::*;
    use crate::config::{Bmp, BmpRouter};
    use crate::learn::State;

    const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

    fn learning(silence: Duration, now: u64) -> Learning {
        let config = Bmp {
            listen: Vec::new(),
            routers: vec![BmpRouter {
                address: HOST.into(),
                name: "rome".to_owned(),
                optional: false,
            }],
            limits: Limits::default(),
            hold: Duration::from_secs(120),
            silence,
            settle: Duration::from_secs(60),
        };
        Learning::new(config, BTreeMap::new(), now)
    }

    fn wait_for(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "waited for {what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the threads of the service, also when the test fails.
    struct Ends<'a>(&'a AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_router_whose_session_was_stuck_sees_a_reset_and_connects_again() {
        let (clock, stop) = (Steady::start(), AtomicBool::new(false));
        let silence = Duration::from_secs(600);
        let learning = learning(silence, clock.now());
        let listeners = bind(&[(HOST, 0).into()]).unwrap();
        let at = listeners[0].local_addr().unwrap();
        thread::scope(|scope| {
            let _ends = Ends(&stop);
            serve(scope, &listeners, &learning, clock, &stop);
            let state = || learning.report(clock.now()).sessions.swap_remove(0);
            let mut router = TcpStream::connect(at).unwrap();
            wait_for("the session", || state().state == State::Up);
            // Ten minutes later, nothing came.
            learning.tick(clock.now() + 601_000);
            assert_eq!((state().state, state().stuck), (State::Held, 1));
            router.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let error = router.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert!(router.write(&[3]).is_err(), "its first message tells it");
            let _router = TcpStream::connect(at).unwrap();
            wait_for("the session's return", || state().state == State::Up);
            assert_eq!((state().cuts, state().stuck), (1, 1));
        });
    }
}
