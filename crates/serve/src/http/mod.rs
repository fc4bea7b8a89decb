//! HTTP/1.1 over TCP or TLS, with hyper. Everything that a client can make large or long has a
//! limit.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | connections | [`slots::MAX_CONNECTIONS`] in all | the oldest half-open one is closed |
//! | half-open connections | [`slots::MAX_HALF_OPEN`] in all, [`slots::MAX_HALF_OPEN_PER_HOST`] from one IPv4 address or IPv6 /64, 15 s | the oldest one is closed |
//! | connections of a client | [`slots::MAX_PER_CLIENT`] | 429 |
//! | headers | 16 KiB, 64 of them, 5 s | 431, or closed |
//! | bodies | by route, 20 s | 413, 408 |
//! | TLS handshake | 5 s | closed |
//! | a connection | 5 min; 1 h if it listens for events | closed |
//! | data without an acknowledgement | 30 s | closed |

mod body;
mod connection;
mod slots;
pub mod tls;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

pub use slots::{MAX_CONNECTIONS, MAX_HALF_OPEN, MAX_HALF_OPEN_PER_HOST, MAX_PER_CLIENT};

use crate::rounds::Rounds;
use crate::service::Service;
use slots::Slots;

/// The threads that answer; an answer may wait for the disk.
const THREADS: usize = 16;
/// The time that an orderly stop waits for answers.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay before a retry when no file descriptor is free.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) rounds: Rounds,
    pub(crate) slots: Slots,
    pub(crate) tls: Option<tls::Acceptor>,
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

/// Answers at `listeners` until `stop` is sent or dropped.
///
/// # Errors
/// If the asynchronous runtime cannot be started.
pub fn serve(
    service: Arc<Service>,
    rounds: Rounds,
    listeners: Vec<TcpListener>,
    tls: Option<tls::Acceptor>,
    stop: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()?;
    let shared = Arc::new(Shared { service, rounds, slots: Slots::default(), tls });
    let outcome = runtime.block_on(async {
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(accept(listener, Arc::clone(&shared)));
        }
        // A dropped sender stops the service too.
        let _ = stop.await;
        shared.service.hub().end();
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

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => match shared.slots.take(from.ip()) {
                Some(admitted) => {
                    let counters = &shared.service.counters;
                    counters.connections.fetch_add(1, Ordering::Relaxed);
                    counters.displaced.fetch_add(admitted.displaced.into(), Ordering::Relaxed);
                    tokio::spawn(connection::serve(stream, admitted, Arc::clone(&shared)));
                }
                None => {
                    shared.service.counters.turned_away.fetch_add(1, Ordering::Relaxed);
                }
            },
            // The client has disconnected, or no descriptor is free until another connection
            // closes.
            Err(_) => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}
