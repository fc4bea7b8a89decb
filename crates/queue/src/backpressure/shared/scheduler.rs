use alloc::sync::Arc;
use alloc::vec::Vec;

use super::state::{CLOSED, GRANTED, HELD, PACKET, QUEUED, State};
use super::sync::Ordering;
use crate::ConfigError;
use crate::backpressure::FlowId;
use crate::ffs::PriorityQueue;

/// The side of the scheduled buffer: which packets left it, and who is resumed.
#[derive(Debug)]
pub struct Scheduler {
    state: Arc<State>,
    /// Flows that wait, first come first served.
    queue: PriorityQueue,
    /// The inbox's flows on their way to the queue; as large as it gets from the start.
    post: Vec<u32>,
    /// Slots that must be free before flows are resumed, once none was.
    threshold: u32,
    /// Whether flows are being resumed: from when enough is free until nothing is.
    open: bool,
}

impl Scheduler {
    pub(super) fn new(state: Arc<State>, flows: u32, threshold: u32) -> Result<Self, ConfigError> {
        let queue = PriorityQueue::new(1, flows)?;
        let post = Vec::with_capacity(flows as usize);
        Ok(Self { state, queue, post, threshold, open: true })
    }

    /// A packet of `flow` left the buffer, sent or dropped. To be followed by
    /// [`Scheduler::resume`].
    ///
    /// # Panics
    /// If `flow` is out of range.
    pub fn left(&mut self, flow: FlowId) {
        let word = &self.state.flow(flow.0).word;
        let before = word.fetch_sub(PACKET, Ordering::AcqRel);
        debug_assert!(before >= PACKET, "a packet leaves that was not reserved for");
        if before & HELD != 0 {
            // The flow waits, so its source leaves these flags alone.
            if before & CLOSED != 0 {
                word.fetch_and(!HELD, Ordering::AcqRel);
            } else {
                self.state.wait();
                word.fetch_xor(HELD | QUEUED, Ordering::AcqRel);
                self.queue.push(flow.0, 0);
            }
        }
        self.state.give_slot();
    }

    /// Resumes a flow, if one waits and a slot is free for it: wake its source. To be called until
    /// it says `None`, after packets have left and when rung for.
    pub fn resume(&mut self) -> Option<FlowId> {
        loop {
            self.collect();
            if self.queue.is_empty() {
                return None;
            }
            self.open |= self.state.free() >= self.threshold;
            if !self.open || !self.state.take_slot() {
                // What is not free will be: it is a packet's in the buffer or on its way there, or
                // was granted to a flow, which uses it or gives it back and rings.
                self.open = false;
                return None;
            }
            while let Some((flow, _)) = self.queue.pop() {
                self.state.stop_waiting();
                if self.grant(flow) {
                    return Some(FlowId(flow));
                }
            }
            // All had ended. While the slot was taken another may have found none free and queued,
            // so look again.
            self.state.give_slot();
            if !self.state.has_post() {
                return None;
            }
        }
    }

    /// Flows that wait, and were seen to by this side.
    pub fn waiting(&self) -> u32 {
        self.queue.len()
    }

    /// Packets in the buffer, on their way there, or that slots are granted for.
    pub fn occupied(&self) -> u32 {
        self.state.slots - self.state.free()
    }

    /// Takes in the flows that have queued, in the order in which they did.
    fn collect(&mut self) {
        self.post.extend(self.state.take_post());
        while let Some(flow) = self.post.pop() {
            self.queue.push(flow, 0);
        }
    }

    /// Makes a slot the flow's own; `false` if the flow has ended.
    fn grant(&self, flow: u32) -> bool {
        let grant = |word: u32| (word & CLOSED == 0).then_some(word ^ (QUEUED | GRANTED));
        let word = &self.state.flow(flow).word;
        let granted = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grant).is_ok();
        if !granted {
            // Nobody else changes this: the number may be given out again only now.
            word.fetch_and(!QUEUED, Ordering::AcqRel);
        }
        granted
    }
}
