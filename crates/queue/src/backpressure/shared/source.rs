use alloc::sync::Arc;

use super::state::{CLOSED, FLAGS, GRANTED, HELD, PACKET, QUEUED, State};
use super::sync::{AtomicU32, Ordering};
use crate::backpressure::FlowId;

/// Gives out sources, from any thread.
#[derive(Clone, Debug)]
pub struct Sources(Arc<State>);

/// A flow's source buffer, as seen by the scheduled buffer: the regulator of one flow.
///
/// Dropping it ends the flow. But a drop cannot answer that the scheduler has to be woken, so a slot
/// that was granted and not used would go to another only when it next looks: rather [`Source::close`].
#[derive(Debug)]
pub struct Source {
    state: Arc<State>,
    flow: u32,
    /// Packets that it may still send in its turn.
    turn: u8,
    closed: bool,
}

/// The answer to [`Source::reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reserve {
    /// A slot of the buffer is this flow's: hand a packet to the scheduler.
    Go,
    /// The flow is paused, and will be resumed. If `ring`, wake the scheduler.
    Paused {
        /// Whether the scheduler has to be woken.
        ring: bool,
    },
}

impl Sources {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self(state)
    }

    /// The source of `flow`, if no one has it, nor has its last one left it paused.
    pub fn open(&self, flow: FlowId) -> Option<Source> {
        let word = &self.0.get(flow.0)?.word;
        let open = |word: u32| (word & FLAGS == CLOSED).then_some(word & !CLOSED);
        word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, open).ok()?;
        Some(Source { state: Arc::clone(&self.0), flow: flow.0, turn: 0, closed: false })
    }
}

impl Source {
    /// The flow.
    pub fn flow(&self) -> FlowId {
        FlowId(self.flow)
    }

    /// Whether the flow is paused. Not once it was resumed, even if its thread has not been woken.
    pub fn is_paused(&self) -> bool {
        self.word().load(Ordering::Acquire) & (QUEUED | HELD) != 0
    }

    fn word(&self) -> &AtomicU32 {
        &self.state.flow(self.flow).word
    }

    /// Reserves a slot for one packet, or pauses the flow.
    pub fn reserve(&mut self) -> Reserve {
        loop {
            let word = self.word().load(Ordering::Acquire);
            if word & (QUEUED | HELD) != 0 {
                return Reserve::Paused { ring: false };
            }
            // From here on only departures change the word, by taking packets off it.
            if word & GRANTED != 0 {
                self.word().fetch_add(PACKET - GRANTED, Ordering::AcqRel);
                self.turn = self.state.turn - 1;
                return Reserve::Go;
            }
            if word / PACKET >= self.state.in_buffer {
                if self.replace(word, word | HELD) {
                    // A packet of its own is in the buffer and wakes it when it leaves.
                    return Reserve::Paused { ring: false };
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
        self.state.wait();
        self.state.post(self.flow);
        // A slot that came free before the scheduler could see this flow: tell it.
        Reserve::Paused { ring: self.state.free() > 0 }
    }

    /// The flow, resumed or in its turn, has nothing to send. Whether to wake the scheduler, since
    /// its slot can go to another.
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

    /// Ends the flow. Whether to wake the scheduler.
    #[must_use]
    pub fn close(mut self) -> bool {
        self.closed = true;
        self.end()
    }

    fn end(&self) -> bool {
        // Granted no more from here on. Queued or held, the scheduler clears that when it comes by.
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
