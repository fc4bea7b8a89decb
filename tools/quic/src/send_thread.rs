//! The thread that sends the packets and wakes the resumed connections.
//!
//! It is a thread and not a task, since the timers of a runtime are accurate to a millisecond only,
//! and a task would wait behind those of thousands of connections.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use forebay_queue::token_bucket::Burst;
use forebay_units::Nanos;
use quinn::AsyncUdpSocket;

use crate::config::Config;
use crate::datagram::Datagram;
use crate::outlet::Outlet;
use crate::shared::{Shared, State};

/// Packets that are sent without taking the lock again.
const BATCH: usize = 32;

/// How long the thread still sends after the socket was dropped.
const LINGER: Nanos = Nanos::from_secs(1);

/// Returns the shortest sleep: an eighth of the burst. A delay of this length does not leave the
/// link idle, and saves a wake-up for every packet.
pub(crate) fn grain(config: &Config) -> Nanos {
    let burst = match (config.burst, config.rate) {
        (_, None) => Nanos::ZERO,
        (Burst::Time(time), Some(_)) => time,
        (Burst::Bytes(bytes), Some(rate)) => rate.time_for(bytes),
    };
    // At a very low rate a burst may take almost for ever.
    (burst / 8).min(Nanos::from_millis(10))
}

/// Starts the thread, which sends through `socket`.
pub(crate) fn start(shared: Arc<Shared>, socket: Arc<dyn AsyncUdpSocket>) -> io::Result<()> {
    let run = move || {
        SendThread { shared, outlet: Outlet::new(socket), ends: None }.run();
    };
    thread::Builder::new().name("quic-egress".to_owned()).spawn(run).map(drop)
}

/// The state of the thread.
struct SendThread {
    shared: Arc<Shared>,
    outlet: Outlet,
    /// When the thread ends, once the socket was dropped.
    ends: Option<Nanos>,
}

impl SendThread {
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

    /// Waits for packets that may leave and takes some. Returns `false` when there will be no more.
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

    /// Sends a packet. Returns `false` if the socket refused it.
    fn send(&mut self, packet: &Datagram) -> bool {
        let Self { shared, outlet, ends } = self;
        outlet.send(&packet.transmit(), || {
            // The socket was dropped and the time to send the rest is over.
            let now = shared.now();
            shared.lock().closed && now >= *ends.get_or_insert(now.saturating_add(LINGER))
        })
    }
}

/// Sleeps until notified, or until `time` is over.
fn sleep<'a>(shared: &Shared, state: MutexGuard<'a, State>, time: Nanos) -> MutexGuard<'a, State> {
    // A longer time may exceed the range of the system's clocks.
    let time = Duration::from_nanos(time.0.min(3_600_000_000_000));
    shared.sooner.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
}
