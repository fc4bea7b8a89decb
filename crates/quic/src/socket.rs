use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use forebay_queue::ConfigError;
use forebay_queue::backpressure::FlowId;
use forebay_units::Nanos;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::config::Config;
use crate::drain;
use crate::egress::{Egress, Offer};
use crate::error::Error;
use crate::statistics::Statistics;

/// A socket for quinn whose sends go through a scheduled buffer at a rate. Receiving is the inner socket's.
///
/// The thread that sends ends when the last reference is gone, once what waits has left, but after a
/// second in any case.
pub struct BackpressuredSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    shared: Arc<Shared>,
    segments: usize,
    /// Tells sockets apart in [`ASKED`].
    id: u64,
}

/// What connections and the thread that sends share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Told when there is something to do sooner than the thread thought.
    pub(crate) sooner: Condvar,
    origin: Instant,
    /// The shortest that the thread sleeps.
    pub(crate) grain: Nanos,
}

/// The connection may send.
struct NotPaused;

pub(crate) struct State {
    pub(crate) egress: Egress,
    /// Who is to be woken, by the number of the connection.
    wakers: Vec<Option<Waker>>,
    /// Until when the thread sleeps; [`Nanos::ZERO`] while it does not.
    pub(crate) sleeps_until: Nanos,
    /// No socket is left.
    pub(crate) closed: bool,
}

thread_local! {
    /// The connection whose poller was asked last on this thread, and of which socket: `try_send` follows in the
    /// same step, and is not told for whom it is.
    static ASKED: Cell<Option<(u64, FlowId)>> = const { Cell::new(None) };
}

static SOCKETS: AtomicU64 = AtomicU64::new(0);

impl BackpressuredSocket {
    /// Around `inner`, such as a runtime's `wrap_udp_socket` makes it. Starts the thread that sends.
    ///
    /// # Errors
    /// If a setting is out of range, or the thread does not start.
    pub fn new(inner: Arc<dyn AsyncUdpSocket>, config: &Config) -> Result<Arc<Self>, Error> {
        let segments = usize::from(config.segments);
        if !(1..=MOST_SEGMENTS).contains(&segments) {
            let (value, max) = (segments as u64, MOST_SEGMENTS as u64);
            return Err(ConfigError::OutOfRange { setting: "segments", value, min: 1, max }.into());
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                egress: Egress::new(config)?,
                wakers: Vec::new(),
                sleeps_until: Nanos::ZERO,
                closed: false,
            }),
            sooner: Condvar::new(),
            origin: Instant::now(),
            grain: drain::grain(config),
        });
        drain::start(Arc::clone(&shared), Arc::clone(&inner)).map_err(Error::Thread)?;
        let id = SOCKETS.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { inner, shared, segments, id }))
    }

    /// What has been counted.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().egress.statistics()
    }
}

/// quinn builds no more in one piece.
const MOST_SEGMENTS: usize = 10;

impl Shared {
    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nothing that is done under the lock leaves anything half done, so one who panicked there harmed nothing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Resumes all whose turn it is. To be woken when the lock is gone.
    pub(crate) fn resume(&mut self, now: Nanos, wake: &mut Vec<Waker>) {
        while let Some(flow) = self.egress.resume(now) {
            let waker = self.wakers.get_mut(flow.0 as usize).and_then(Option::take);
            wake.extend(waker);
        }
    }

    /// Whether the thread sleeps longer than it would if it looked now.
    fn is_late(&mut self, now: Nanos, grain: Nanos) -> bool {
        let next = self.egress.next_event(now);
        next.is_some_and(|at| at.saturating_add(grain) < self.sleeps_until)
    }

    /// If `flow` is paused, has `waker` woken when it is resumed. What was there before is given out, to be
    /// dropped when the lock is gone: with a waker a task may end, and with it its poller, which takes the lock.
    fn wait(&mut self, flow: FlowId, waker: &Waker) -> Result<Option<Waker>, NotPaused> {
        if !self.egress.is_paused(flow) {
            return Err(NotPaused);
        }
        let index = flow.0 as usize;
        if self.wakers.len() <= index {
            // No more than connections, whose number is bounded.
            self.wakers.resize(index + 1, None);
        }
        let known = &mut self.wakers[index];
        match known {
            Some(known) if known.will_wake(waker) => Ok(None),
            _ => Ok(known.replace(waker.clone())),
        }
    }
}

impl AsyncUdpSocket for BackpressuredSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let (flow, too_many) = {
            let egress = &mut self.shared.lock().egress;
            (egress.open(), egress.statistics().unregulated)
        };
        if flow.is_none() && too_many == 1 {
            tracing::warn!("more connections than `flows`: what of theirs does not fit is lost");
        }
        Box::pin(Poller { socket: self, flow })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let flow = ASKED.take().filter(|(id, _)| *id == self.id).map(|(_, flow)| flow);
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

/// A connection's, or of one too many.
#[derive(Debug)]
struct Poller {
    socket: Arc<BackpressuredSocket>,
    flow: Option<FlowId>,
}

impl UdpPoller for Poller {
    /// Pending only from when `try_send` refused a packet until the connection is resumed: a connection
    /// that has nothing to send is never among those that wait.
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(flow) = self.flow else {
            ASKED.set(None);
            return Poll::Ready(Ok(()));
        };
        let waits = self.socket.shared.lock().wait(flow, cx.waker());
        if waits.is_ok() {
            return Poll::Pending;
        }
        ASKED.set(Some((self.socket.id, flow)));
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
        wake.extend(state.wakers.get_mut(flow.0 as usize).and_then(Option::take));
        // Its own is dropped only when the lock is gone, and woken for nothing.
        state.egress.close(flow);
        state.resume(now, &mut wake);
        if state.is_late(now, shared.grain) {
            shared.sooner.notify_one();
        }
        drop(state);
        wake.into_iter().for_each(Waker::wake);
    }
}
