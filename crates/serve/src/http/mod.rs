//! HTTP/1.1 over TCP, or over TLS over TCP. By hyper, with a bound on all that a stranger could make large or long.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | connections | [`slots::MOST`] in all, [`slots::MOST_OF_ONE`] from one IPv4 address or IPv6 /64 | closed at once |
//! | headers | 16 KiB, 64 of them, 10 s | 431, or closed |
//! | bodies | by route, 20 s | 413, 408 |
//! | TLS's handshake | 10 s | closed |
//! | a connection | 5 min; 1 h for one that listens | closed |
//! | data that nobody acknowledges | 30 s | closed |

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

pub use slots::{MOST, MOST_OF_ONE};

use crate::rounds::Rounds;
use crate::service::Service;
use slots::Slots;

/// Threads that answer: answers may wait for the disk.
const THREADS: usize = 16;
/// After that an orderly stop waits for no answer any more.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait when the system has no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(50);

/// What all connections have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) rounds: Rounds,
    pub(crate) slots: Slots,
    pub(crate) tls: Option<tls::Acceptor>,
}

/// Sockets that listen at all of `addresses`, and where that is.
///
/// # Errors
/// If one cannot: the address, and why.
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
/// If the system gives no runtime.
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
        // Whoever could send it and is gone wants the same.
        let _ = stop.await;
        shared.service.hub().end();
        let idle = async {
            while shared.slots.taken() > 0 {
                tokio::time::sleep(BREATH).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, idle).await;
        Ok::<(), io::Error>(())
    });
    runtime.shutdown_timeout(PATIENCE);
    outcome
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => match shared.slots.take(from.ip()) {
                Some(slot) => {
                    shared.service.counters.connections.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(connection::serve(stream, slot, Arc::clone(&shared)));
                }
                None => {
                    shared.service.counters.turned_away.fetch_add(1, Ordering::Relaxed);
                }
            },
            // A connection that was gone already, or no descriptor is left: others will close theirs.
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}
