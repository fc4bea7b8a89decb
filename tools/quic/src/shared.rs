//! The state that the socket, the pollers of its connections and the sending thread share.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use forebay_queue::backpressure::FlowId;
use forebay_units::Nanos;

use crate::egress::Egress;

/// The shared state behind its lock.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when the thread has something to do sooner than it planned.
    pub(crate) sooner: Condvar,
    origin: Instant,
    /// The shortest time that the thread sleeps.
    pub(crate) grain: Nanos,
}

/// The error of waiting for a connection that may send.
pub(crate) struct NotPaused;

/// The egress and the tasks and the thread that wait for it.
pub(crate) struct State {
    pub(crate) egress: Egress,
    /// The wakers of paused connections, by the number of the connection.
    wakers: Vec<Option<Waker>>,
    /// Until when the thread sleeps; [`Nanos::ZERO`] while it does not.
    pub(crate) sleeps_until: Nanos,
    /// Whether the socket was dropped.
    pub(crate) closed: bool,
}

impl Shared {
    /// Creates the state around `egress`. The thread never sleeps for less than `grain`.
    pub(crate) fn new(egress: Egress, grain: Nanos) -> Self {
        Self {
            state: Mutex::new(State {
                egress,
                wakers: Vec::new(),
                sleeps_until: Nanos::ZERO,
                closed: false,
            }),
            sooner: Condvar::new(),
            origin: Instant::now(),
            grain,
        }
    }

    /// Returns the time since the state was created.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Locks the state. No operation under the lock leaves it inconsistent, so the lock of a thread
    /// that panicked can still be used.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Resumes all connections whose turn it is, and adds their wakers to `wake`. Wake them after
    /// the lock is released.
    pub(crate) fn resume(&mut self, now: Nanos, wake: &mut Vec<Waker>) {
        while let Some(flow) = self.egress.resume(now) {
            wake.extend(self.take_waker(flow));
        }
    }

    /// Removes and returns the waker of a connection.
    pub(crate) fn take_waker(&mut self, flow: FlowId) -> Option<Waker> {
        self.wakers.get_mut(flow.0 as usize).and_then(Option::take)
    }

    /// Returns whether the thread sleeps longer than the egress now needs.
    pub(crate) fn is_late(&mut self, now: Nanos, grain: Nanos) -> bool {
        let next = self.egress.next_event(now);
        next.is_some_and(|at| at.saturating_add(grain) < self.sleeps_until)
    }

    /// Stores `waker` to be woken when `flow` is resumed, if it is paused.
    ///
    /// Returns the waker that was stored before. Drop it after the lock is released: dropping a
    /// waker may end a task and drop its poller, which takes the lock.
    pub(crate) fn wait(&mut self, flow: FlowId, waker: &Waker) -> Result<Option<Waker>, NotPaused> {
        if !self.egress.is_paused(flow) {
            return Err(NotPaused);
        }
        let index = flow.0 as usize;
        if self.wakers.len() <= index {
            // The number of connections is bounded, so this is too.
            self.wakers.resize(index + 1, None);
        }
        let known = &mut self.wakers[index];
        match known {
            Some(known) if known.will_wake(waker) => Ok(None),
            _ => Ok(known.replace(waker.clone())),
        }
    }
}
