use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use forebay_queue::ConfigError;
use forebay_queue::backpressure::FlowId;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::asked::{Asked, SocketId};
use crate::config::Config;
use crate::egress::{Egress, Offer};
use crate::error::Error;
use crate::send_thread;
use crate::shared::Shared;
use crate::statistics::Statistics;

/// A socket for quinn whose sends pass through a scheduled buffer at a rate.
///
/// The inner socket receives. A thread of its own sends. It ends after the last reference is
/// dropped, once the buffer is empty, and after a second at the latest.
pub struct BackpressuredSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    shared: Arc<Shared>,
    segments: usize,
    id: SocketId,
}

thread_local! {
    static ASKED: Asked<FlowId> = const { Asked::new() };
}

impl BackpressuredSocket {
    /// Creates a socket around `inner`, for example from a runtime's `wrap_udp_socket`, and starts
    /// the thread that sends.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range or the thread does not start.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, config: &Config) -> Result<Arc<Self>, Error> {
        let segments = usize::from(config.segments);
        if !(1..=MAX_SEGMENTS).contains(&segments) {
            let (value, max) = (segments as u64, MAX_SEGMENTS as u64);
            return Err(ConfigError::OutOfRange { setting: "segments", value, min: 1, max }.into());
        }
        let egress = Egress::new(config)?;
        let shared = Arc::new(Shared::new(egress, send_thread::grain(config)));
        send_thread::start(Arc::clone(&shared), Arc::clone(&inner)).map_err(Error::Thread)?;
        Ok(Arc::new(Self { inner, shared, segments, id: SocketId::new() }))
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().egress.statistics()
    }
}

/// The largest number of segments that quinn puts into one transmit.
const MAX_SEGMENTS: usize = 10;

impl AsyncUdpSocket for BackpressuredSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let (flow, too_many) = {
            let egress = &mut self.shared.lock().egress;
            (egress.open(), egress.statistics().unregulated)
        };
        if flow.is_none() && too_many == 1 {
            tracing::warn!(
                "more connections than `flows`: packets of the others are dropped if they do not \
                 fit; raise `flows`"
            );
        }
        Box::pin(Poller { socket: self, flow })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let flow = ASKED.with(|asked| asked.take(self.id));
        let mut state = self.shared.lock();
        let now = self.shared.now();
        let offer = state.egress.send(now, flow, transmit);
        if state.is_late(now, self.shared.grain) {
            self.shared.sooner.notify_one();
        }
        match offer {
            Offer::Taken => Ok(()),
            Offer::Paused => Err(io::ErrorKind::WouldBlock.into()),
        }
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

impl Drop for BackpressuredSocket {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.sooner.notify_one();
    }
}

impl fmt::Debug for BackpressuredSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackpressuredSocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The poller of a connection. `flow` is `None` for a connection beyond the largest number.
#[derive(Debug)]
struct Poller {
    socket: Arc<BackpressuredSocket>,
    flow: Option<FlowId>,
}

impl UdpPoller for Poller {
    /// Returns pending only after `try_send` refused a packet and until the connection is resumed.
    /// So a connection without packets to send never waits.
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(flow) = self.flow else {
            ASKED.with(|asked| asked.set(self.socket.id, None));
            return Poll::Ready(Ok(()));
        };
        let waits = self.socket.shared.lock().wait(flow, cx.waker());
        if waits.is_ok() {
            return Poll::Pending;
        }
        ASKED.with(|asked| asked.set(self.socket.id, Some(flow)));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let Some(flow) = self.flow else { return };
        let mut wake = Vec::new();
        let shared = &self.socket.shared;
        let mut state = shared.lock();
        let now = shared.now();
        wake.extend(state.take_waker(flow));
        // Its own waker is dropped after the lock is released, and woken without need.
        state.egress.close(flow);
        state.resume(now, &mut wake);
        if state.is_late(now, shared.grain) {
            shared.sooner.notify_one();
        }
        drop(state);
        wake.into_iter().for_each(Waker::wake);
    }
}
