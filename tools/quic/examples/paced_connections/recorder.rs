//! A socket around quinn's that records when the packets of each connection leave.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use forebay_units::{Bytes, Rate};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// The least length in bytes of a packet that counts: shorter ones have no data.
const LEAST: usize = 1000;
/// Connections of which intervals are recorded, as a share of all: one in so many.
const SAMPLED: u64 = 8;
/// The most intervals that are kept.
const MAX_INTERVALS: usize = 1 << 22;

/// What was recorded since the last [`Recorder::take`].
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Errors of intervals between two packets of a connection, in seconds.
    pub(crate) errors: Vec<f64>,
}

#[derive(Default)]
struct State {
    recorded: Recorded,
    /// When the last packet of a connection left, by the identifier of the connection.
    last: HashMap<u64, Instant>,
}

/// A socket that records what is sent through it.
pub(crate) struct Recorder {
    inner: Arc<dyn AsyncUdpSocket>,
    rate: Rate,
    state: Mutex<State>,
}

impl Recorder {
    /// Makes a recorder of packets of connections with this rate each.
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>, rate: Rate) -> Arc<Self> {
        Arc::new(Self { inner, rate, state: Mutex::default() })
    }

    /// Returns what was recorded since the last call.
    pub(crate) fn take(&self) -> Recorded {
        std::mem::take(&mut self.lock().recorded)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, transmit: &Transmit<'_>) {
        let len = transmit.contents.len();
        // A packet with a short header has the identifier of its connection in bytes 1 to 8, which
        // is how long quinn's are (RFC 9000, section 17.3.1).
        let Some((first, rest)) = transmit.contents.split_first() else { return };
        if len < LEAST || first & 0x80 != 0 {
            return;
        }
        let Some(id) = rest.first_chunk().map(|id| u64::from_be_bytes(*id)) else { return };
        let mut state = self.lock();
        let State { recorded, last } = &mut *state;
        recorded.packets += 1;
        recorded.bytes += len as u64;
        // Identifiers are random.
        if !id.is_multiple_of(SAMPLED) {
            return;
        }
        let now = Instant::now();
        let wanted = self.rate.time_for(Bytes(len as u64)).0 as f64 / 1e9;
        if let Some(before) = last.insert(id, now)
            && recorded.errors.len() < MAX_INTERVALS
        {
            recorded.errors.push(((now - before).as_secs_f64() - wanted).abs());
        }
    }
}

impl AsyncUdpSocket for Recorder {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)?;
        self.record(transmit);
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

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("inner", &self.inner).finish_non_exhaustive()
    }
}
