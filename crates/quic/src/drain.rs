//! The thread that sends what may leave, and wakes those who may go on.
//!
//! A thread and not a task: a runtime's timers have a grain of a millisecond, and its tasks wait behind
//! those of thousands of connections. It sleeps on a condition, and wherever else it
//! waits somebody wakes it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use forebay_queue::token_bucket::Burst;
use forebay_units::Nanos;
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::config::Config;
use crate::datagram::Datagram;
use crate::socket::{Shared, State};

/// Packets that leave between two looks at the lock.
const BATCH: usize = 32;

/// How long what waits is still sent when the socket is gone.
const LINGER: Nanos = Nanos::from_secs(1);

/// The longest that a busy socket is waited for before it is asked again.
const BUSY: Duration = Duration::from_millis(50);

/// The shortest sleep: an eighth of the burst. Later by that costs the link nothing, and saves waking up for
/// every packet.
pub(crate) fn grain(config: &Config) -> Nanos {
    let burst = match (config.burst, config.rate) {
        (_, None) => Nanos::ZERO,
        (Burst::Time(time), Some(_)) => time,
        (Burst::Bytes(bytes), Some(rate)) => rate.time_for(bytes),
    };
    // At a rate of nearly nothing a burst may take for ever.
    (burst / 8).min(Nanos::from_millis(10))
}

pub(crate) fn start(shared: Arc<Shared>, socket: Arc<dyn AsyncUdpSocket>) -> io::Result<()> {
    let run = move || {
        let poller = Arc::clone(&socket).create_io_poller();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        Drain { shared, socket, poller, waker, ends: None }.run();
    };
    thread::Builder::new().name("quic-egress".to_owned()).spawn(run).map(drop)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

struct Drain {
    shared: Arc<Shared>,
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
    waker: Waker,
    /// When it gives up, once the socket is gone.
    ends: Option<Nanos>,
}

impl Drain {
    fn run(mut self) {
        let (mut batch, mut wake) = (Vec::with_capacity(BATCH), Vec::new());
        while self.take(&mut batch, &mut wake) {
            wake.drain(..).for_each(Waker::wake);
            for packet in batch.drain(..) {
                if !self.send(&packet) {
                    self.shared.lock().egress.refused();
                }
            }
        }
    }

    /// Waits for packets that may leave and takes some. `false` when there will be no more.
    fn take(&mut self, batch: &mut Vec<Datagram>, wake: &mut Vec<Waker>) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            let now = shared.now();
            while batch.len() < BATCH
                && let Some(packet) = state.egress.dequeue(now)
            {
                batch.push(packet);
            }
            state.resume(now, wake);
            if !(batch.is_empty() && wake.is_empty()) {
                return true;
            }
            let mut until = state.egress.next_event(now).unwrap_or(Nanos::MAX);
            if state.closed {
                let end = *self.ends.get_or_insert(now.saturating_add(LINGER));
                if now >= end || state.egress.statistics().backlog == 0 {
                    return false;
                }
                until = until.min(end);
            }
            let until = until.max(now.saturating_add(shared.grain));
            state.sleeps_until = until;
            state = sleep(&shared, state, until.saturating_sub(now));
            state.sleeps_until = Nanos::ZERO;
        }
    }

    /// `false` if the socket refused it.
    fn send(&mut self, packet: &Datagram) -> bool {
        let transmit = packet.transmit();
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            match self.poller.as_mut().poll_writable(&mut cx) {
                Poll::Pending => {
                    if self.has_ended() {
                        return false;
                    }
                    thread::park_timeout(BUSY);
                    continue;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return false,
            }
            match self.socket.try_send(&transmit) {
                Ok(()) => return true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }

    /// Whether the socket is gone, and the time for what was left over too.
    fn has_ended(&mut self) -> bool {
        let now = self.shared.now();
        if !self.shared.lock().closed {
            return false;
        }
        now >= *self.ends.get_or_insert(now.saturating_add(LINGER))
    }
}

/// Until told, or until `time` is over.
fn sleep<'a>(shared: &Shared, state: MutexGuard<'a, State>, time: Nanos) -> MutexGuard<'a, State> {
    // Longer than that is for ever, which the system's clocks may not be able to say.
    let time = Duration::from_nanos(time.0.min(3_600_000_000_000));
    shared.sooner.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
}
