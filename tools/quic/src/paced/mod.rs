//! A socket for quinn that paces each connection, by an [egress engine](forebay_queue::egress).
//!
//! quinn gives the socket the next packets of a connection, which wait there until it is the
//! connection's turn. While [`Config::waiting`] of its transmits wait, the connection is not
//! writable, so its streams hold back the data. One thread gives the turns and sends.
//!
//! QUIC's own pacing spreads a congestion window over a round trip. A rate that the application
//! knows, such as that of a video, is paced by a timer for each connection otherwise, whose
//! resolution is a millisecond in tokio.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use forebay_quic::paced::{Config, PacedSocket};
//! use forebay_units::Rate;
//! use quinn::{Runtime, TokioRuntime};
//!
//! let udp = std::net::UdpSocket::bind("[::]:443")?;
//! let config = Config { rate: Rate::from_mbps(5), ..Config::default() };
//! let socket = PacedSocket::new(Arc::new(TokioRuntime).wrap_udp_socket(udp)?, &config)?;
//! println!("{:?}", socket.statistics());
//! # Ok(())
//! # }
//! ```

mod message;
mod state;
#[cfg(test)]
mod tests;
mod thread;

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use forebay_queue::ConfigError;
use forebay_queue::egress::FlowId;
use forebay_units::{Nanos, Rate};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::asked::{Asked, SocketId};
use crate::error::Error;
use message::Message;
use state::State;

/// The largest number of segments that quinn puts into one transmit.
const MAX_SEGMENTS: u8 = 10;

/// The configuration of a [`PacedSocket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The rate of each connection, of UDP payload; at least 1 kbit/s.
    pub rate: Rate,
    /// The largest number of paced connections, each with about 250 bytes of state. Default 16 384.
    /// Further connections are not paced.
    pub flows: u32,
    /// The number of transmits of a connection that wait for their time, 1 to 255. Default two, so
    /// that one waits while quinn builds the next. A connection is woken when half of them are
    /// left: with more, it is woken more rarely, and its packets are older when they leave.
    pub waiting: u8,
    /// The largest number of datagrams in one transmit (segmentation offload), 1 to 10. They leave
    /// together. Default one.
    pub segments: u8,
    /// The granularity of pacing. Default 65 us: a finer one wakes the thread up for fewer
    /// connections at a time.
    pub granularity: Nanos,
    /// How far behind its pacing time a connection may be and still catch up. Default 10 ms. A new
    /// connection and one that paused may send as much at once.
    pub credit: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rate: Rate::from_mbps(10),
            flows: 16_384,
            waiting: 2,
            segments: 1,
            granularity: Nanos(1 << 16),
            credit: Nanos::from_millis(10),
        }
    }
}

/// The counters of a [`PacedSocket`] since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Open connections that are paced.
    pub flows: u32,
    /// Connections opened beyond [`Config::flows`], which are not paced.
    pub unpaced: u64,
    /// Datagrams taken from paced connections: the sum of those sent, refused and still waiting.
    pub taken: u64,
    /// Datagrams that the socket below accepted.
    pub sent: u64,
    /// Bytes of these datagrams.
    pub sent_bytes: u64,
    /// Datagrams that the socket below refused, for another reason than being busy.
    pub refused: u64,
    /// Times that the sending thread slept.
    pub sleeps: u64,
}

/// A socket for quinn that sends each connection's packets at a rate of its own.
///
/// The inner socket receives, and sends what belongs to no connection. The thread that sends the
/// rest ends after the last reference is dropped, once nothing waits, and after a second at the
/// latest.
pub struct PacedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    shared: Arc<Shared>,
    segments: usize,
    id: SocketId,
}

thread_local! {
    static ASKED: Asked<FlowId> = const { Asked::new() };
}

/// The state that the socket, its pollers and the thread share.
struct Shared {
    state: Mutex<State>,
    /// Notified when the thread has something to do sooner than it planned.
    sooner: Condvar,
    origin: Instant,
}

impl Shared {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Locks the state. No operation under the lock leaves it inconsistent, so the lock of a thread
    /// that panicked can still be used.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PacedSocket {
    /// Creates a socket around `inner`, for example from a runtime's `wrap_udp_socket`, and starts
    /// the thread that sends.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range or the thread does not start.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, config: &Config) -> Result<Arc<Self>, Error> {
        let (value, max) = (u64::from(config.segments), u64::from(MAX_SEGMENTS));
        if !(1..=max).contains(&value) {
            return Err(ConfigError::OutOfRange { setting: "segments", value, min: 1, max }.into());
        }
        let state = Mutex::new(State::new(config)?);
        let shared = Arc::new(Shared { state, sooner: Condvar::new(), origin: Instant::now() });
        thread::start(Arc::clone(&shared), Arc::clone(&inner)).map_err(Error::Thread)?;
        let segments = usize::from(config.segments).min(inner.max_transmit_segments());
        Ok(Arc::new(Self { inner, shared, segments, id: SocketId::new() }))
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().statistics()
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let flow = self.shared.lock().open();
        match flow {
            Some(flow) => Box::pin(Poller { socket: self, flow }),
            None => Arc::clone(&self.inner).create_io_poller(),
        }
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let flow = ASKED.with(|asked| asked.take(self.id));
        let Some(flow) = flow else { return self.inner.try_send(transmit) };
        // It is copied before the lock is taken.
        let message = Message::of(transmit);
        let sleeps = {
            let mut state = self.shared.lock();
            let now = self.shared.now();
            state.put(now, flow, message) && state.sleeps
        };
        if sleeps {
            self.shared.sooner.notify_one();
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.segments
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl Drop for PacedSocket {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.sooner.notify_one();
    }
}

impl fmt::Debug for PacedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedSocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The poller of a paced connection.
#[derive(Debug)]
struct Poller {
    socket: Arc<PacedSocket>,
    flow: FlowId,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waits = self.socket.shared.lock().wait(self.flow, cx.waker());
        if waits.is_ok() {
            return Poll::Pending;
        }
        ASKED.with(|asked| asked.set(self.socket.id, Some(self.flow)));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // Its waker is dropped after the lock is released, since that may end a task.
        let waker = self.socket.shared.lock().close(self.flow);
        drop(waker);
    }
}
