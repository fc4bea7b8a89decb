//! The side of a source.

use alloc::sync::Arc;

use super::state::{AT_LIMIT, CLOSED, FLAGS, GRANTED, PACKET, QUEUED, State};
use crate::backpressure::FlowId;
use crate::sync::{AtomicU32, Ordering};

/// A factory of sources, usable from any thread.
#[derive(Clone, Debug)]
pub struct Sources(Arc<State>);

/// The side of one flow's source buffer.
///
/// Dropping it ends the flow. Prefer [`Source::close`]: a drop cannot report that the scheduler
/// must be woken, so an unused slot goes to another flow only when the scheduler runs next.
#[derive(Debug)]
pub struct Source {
    state: Arc<State>,
    flow: u32,
    /// Packets that the flow may still send in its turn.
    turn: u8,
    closed: bool,
}

/// The result of [`Source::reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reserve {
    /// The flow has a slot of the buffer: pass a packet to the scheduler.
    Go,
    /// The flow is paused and will be resumed.
    Paused {
        /// Whether the caller must wake the scheduler.
        wake_scheduler: bool,
    },
}

impl Sources {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self(state)
    }

    /// Returns the source of `flow`, or `None` if the flow has a source or its last source has not
    /// left the queue.
    pub fn open(&self, flow: FlowId) -> Option<Source> {
        let word = &self.0.get(flow.0)?.word;
        let open = |word: u32| (word & FLAGS == CLOSED).then_some(word & !CLOSED);
        word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, open).ok()?;
        Some(Source { state: Arc::clone(&self.0), flow: flow.0, turn: 0, closed: false })
    }
}

impl Source {
    /// Returns the flow.
    pub fn flow(&self) -> FlowId {
        FlowId(self.flow)
    }

    /// Returns whether the flow is paused. A resumed flow is not, even before its thread wakes.
    pub fn is_paused(&self) -> bool {
        self.word().load(Ordering::Acquire) & (QUEUED | AT_LIMIT) != 0
    }

    fn word(&self) -> &AtomicU32 {
        &self.state.flow(self.flow).word
    }

    /// Reserves a slot for one packet, or pauses the flow.
    pub fn reserve(&mut self) -> Reserve {
        loop {
            let word = self.word().load(Ordering::Acquire);
            if word & (QUEUED | AT_LIMIT) != 0 {
                return Reserve::Paused { wake_scheduler: false };
            }
            // From here on only departures change the word: they subtract packets.
            if word & GRANTED != 0 {
                self.word().fetch_add(PACKET - GRANTED, Ordering::AcqRel);
                self.turn = self.state.turn - 1;
                return Reserve::Go;
            }
            if word / PACKET >= self.state.in_buffer {
                if self.replace(word, word | AT_LIMIT) {
                    // One of the flow's packets is in the buffer; its departure queues the flow.
                    return Reserve::Paused { wake_scheduler: false };
                }
                continue;
            }
            let its_turn = self.turn > 0 || self.state.waiting() == 0;
            if its_turn && self.state.take_slot() {
                self.word().fetch_add(PACKET, Ordering::AcqRel);
                self.turn = self.turn.saturating_sub(1);
                return Reserve::Go;
            }
            return self.pause();
        }
    }

    fn replace(&self, from: u32, to: u32) -> bool {
        self.word().compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn pause(&mut self) -> Reserve {
        self.turn = 0;
        self.word().fetch_or(QUEUED, Ordering::AcqRel);
        self.state.add_waiting();
        self.state.post_to_inbox(self.flow);
        // A slot may have become free before the scheduler could see this flow.
        Reserve::Paused { wake_scheduler: self.state.free() > 0 }
    }

    /// Reports that the flow, resumed or in its turn, has nothing to send. Returns whether to wake
    /// the scheduler, which can give the slot to another flow.
    #[must_use]
    pub fn idle(&mut self) -> bool {
        self.turn = 0;
        if self.word().load(Ordering::Acquire) & GRANTED == 0 {
            return false;
        }
        self.word().fetch_sub(GRANTED, Ordering::AcqRel);
        self.give_back()
    }

    fn give_back(&self) -> bool {
        self.state.give_slot();
        self.state.waiting() > 0
    }

    /// Ends the flow. Returns whether to wake the scheduler.
    #[must_use]
    pub fn close(mut self) -> bool {
        self.closed = true;
        self.end()
    }

    fn end(&self) -> bool {
        // The scheduler grants no slot from here on. It clears `QUEUED` and `AT_LIMIT` later.
        let word = self.word().fetch_or(CLOSED, Ordering::AcqRel);
        if word & GRANTED == 0 {
            return false;
        }
        self.word().fetch_sub(GRANTED, Ordering::AcqRel);
        self.give_back()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if !self.closed {
            self.end();
        }
    }
}
