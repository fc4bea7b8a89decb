//! HTTP/1.1 over TCP or TLS, with hyper, for services of few clients. Everything that a client can
//! make large or long has a limit.
//!
//! A program implements [`Service`] and calls [`serve`]. [`token`] has the credentials of clients,
//! [`tls`] the certificates, and [`events`] the listeners for server-sent events. Without TLS, a
//! request that names a host other than [`Hosts`] is refused with 403.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | connections | [`MAX_CONNECTIONS`] in all | the oldest half-open one is closed |
//! | half-open connections | [`MAX_HALF_OPEN`] in all, [`MAX_HALF_OPEN_PER_HOST`] from one IPv4 address or IPv6 /64, 15 s | the oldest one is closed |
//! | connections of a client | [`MAX_PER_CLIENT`] | 429 |
//! | headers | 16 KiB, 64 of them, 5 s | 431, or closed |
//! | bodies | by route, 20 s | 413, 408 |
//! | TLS handshake | 5 s | closed |
//! | a connection | 5 min; 1 h if it listens for events | closed |
//! | data without an acknowledgement | 30 s | closed |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod answer;
mod body;
mod connection;
pub mod events;
mod host;
mod slots;
mod stop;
pub mod tls;
pub mod token;

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

pub use answer::Answer;
pub use host::{HostName, Hosts};
pub use slots::{MAX_CONNECTIONS, MAX_HALF_OPEN, MAX_HALF_OPEN_PER_HOST, MAX_PER_CLIENT};
pub use stop::{Stop, StopAtEnd};

use events::Listener;
use slots::Slots;
use token::Shown;

/// The threads that answer; an answer may wait for the disk.
const THREADS: usize = 16;
/// The time that an orderly stop waits for answers, and once more for those that compute. A client
/// that sends nothing more delays it no longer.
const STOP_TIMEOUT: Duration = Duration::from_millis(400);
/// The delay before a retry when no file descriptor is free.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// A service whose requests [`serve`] takes.
pub trait Service: Debug + Send + Sync + 'static {
    /// A client with an own share of connections.
    type Who: Copy + Debug + Eq + Send + Sync;
    /// A route that the service has.
    type Route: Debug + Sync + 'static;

    /// Returns the route of a request.
    ///
    /// # Errors
    /// If there is none: the answer.
    fn find(&self, method: &str, path: &str) -> Result<&'static Self::Route, Answer>;

    /// Returns the largest body of a request, in bytes. By default no request has a body.
    fn largest(&self, _route: &Self::Route) -> usize {
        0
    }

    /// Returns the client with the credentials that were shown; `None` is anyone, whose connection
    /// stays half-open.
    ///
    /// # Errors
    /// If the client may not use the route: the answer.
    fn authenticate(&self, route: &Self::Route, shown: &Shown)
    -> Result<Option<Self::Who>, Answer>;

    /// Counts a request against the limit of its client. By default there is no limit.
    ///
    /// # Errors
    /// If there were too many: the answer.
    fn admit(&self, _who: Option<Self::Who>) -> Result<(), Answer> {
        Ok(())
    }

    /// Returns a new listener, if the route is a stream of events. By default none is.
    ///
    /// # Errors
    /// If there are too many listeners: the answer.
    fn listen(
        &self,
        _route: &Self::Route,
        _who: Option<Self::Who>,
        _query: &str,
    ) -> Result<Option<Listener>, Answer> {
        Ok(None)
    }

    /// Answers a request. The call may block.
    fn answer(&self, request: &Request<'_, Self::Route, Self::Who>) -> Answer;

    /// Counts an answer; `None` is a request without a route.
    fn count(&self, _route: Option<&'static Self::Route>, _status: u16) {}

    /// Counts a connection.
    fn count_connection(&self, _connection: Connection) {}

    /// Ends all listeners, when the service stops.
    fn end(&self) {}
}

/// A request for a route, from a client that may use it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, R: 'static, W> {
    /// The route of the request.
    pub route: &'static R,
    /// The client that sent it; `None` is anyone.
    pub who: Option<W>,
    /// The query of the URL, without its question mark, or an empty text.
    pub query: &'a str,
    /// The media type of the body, or an empty text.
    pub kind: &'a str,
    /// The body of the request.
    pub body: &'a [u8],
}

/// What became of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It was accepted.
    Accepted,
    /// It was accepted, and a half-open one was closed for it.
    Displaced,
    /// It was refused at the limit.
    TurnedAway,
}

/// What all connections share.
#[derive(Debug)]
struct Shared<S: Service> {
    service: Arc<S>,
    slots: Slots<S::Who>,
    tls: Option<tls::Acceptor>,
    hosts: Hosts,
}

/// Returns sockets that listen at all of `addresses`.
///
/// # Errors
/// If an address cannot be used: the address and the cause.
pub fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, (SocketAddr, io::Error)> {
    let open = |address: &SocketAddr| {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        listen().map_err(|e| (*address, e))
    };
    addresses.iter().map(open).collect()
}

/// Answers at `listeners` until `stop` is sent or dropped. Without TLS, clients have to call the
/// service by one of `hosts`.
///
/// # Errors
/// If the asynchronous runtime cannot be started.
pub fn serve<S: Service>(
    service: Arc<S>,
    listeners: Vec<TcpListener>,
    tls: Option<tls::Acceptor>,
    hosts: Hosts,
    stop: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()?;
    let shared = Arc::new(Shared { service, slots: Slots::default(), tls, hosts });
    let outcome = runtime.block_on(async {
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(accept(listener, Arc::clone(&shared)));
        }
        // A dropped sender stops the service too.
        let _ = stop.await;
        shared.service.end();
        let idle = async {
            while shared.slots.taken() > 0 {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, idle).await;
        Ok::<(), io::Error>(())
    });
    runtime.shutdown_timeout(STOP_TIMEOUT);
    outcome
}

async fn accept<S: Service>(listener: tokio::net::TcpListener, shared: Arc<Shared<S>>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let admitted = shared.slots.take(from.ip());
                shared.service.count_connection(match &admitted {
                    Some(admitted) if admitted.displaced => Connection::Displaced,
                    Some(_) => Connection::Accepted,
                    None => Connection::TurnedAway,
                });
                if let Some(admitted) = admitted {
                    tokio::spawn(connection::serve(stream, admitted, Arc::clone(&shared)));
                }
            }
            // The client has disconnected, or no descriptor is free until another connection
            // closes.
            Err(_) => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}
