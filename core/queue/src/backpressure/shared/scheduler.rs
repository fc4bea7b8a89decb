//! The side of the scheduled buffer.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::state::{AT_LIMIT, CLOSED, GRANTED, PACKET, QUEUED, State};
use crate::ConfigError;
use crate::backpressure::FlowId;
use crate::ffs::PriorityQueue;
use crate::sync::Ordering;

/// The side of the scheduled buffer: it reports departures and decides which flows are resumed.
#[derive(Debug)]
pub struct Scheduler {
    state: Arc<State>,
    /// Flows that wait, first come first served.
    queue: PriorityQueue,
    /// The flows of the inbox on their way to the queue; allocated for all flows.
    arriving: Vec<u32>,
    /// Slots that must be free before flows are resumed, after no slot was free.
    threshold: u32,
    /// Whether flows are resumed: from when the threshold is reached until no slot is free.
    open: bool,
}

impl Scheduler {
    pub(super) fn new(state: Arc<State>, flows: u32, threshold: u32) -> Result<Self, ConfigError> {
        let queue = PriorityQueue::new(1, flows)?;
        let arriving = Vec::with_capacity(flows as usize);
        Ok(Self { state, queue, arriving, threshold, open: true })
    }

    /// Reports that a packet of `flow` left the buffer, sent or dropped. Call
    /// [`Scheduler::resume`] afterwards.
    ///
    /// # Panics
    /// Panics if `flow` is out of range.
    pub fn left(&mut self, flow: FlowId) {
        let word = &self.state.flow(flow.0).word;
        let before = word.fetch_sub(PACKET, Ordering::AcqRel);
        debug_assert!(before >= PACKET, "a packet left for which no slot was reserved");
        if before & AT_LIMIT != 0 {
            // The flow waits, so its source does not change these flags.
            if before & CLOSED != 0 {
                word.fetch_and(!AT_LIMIT, Ordering::AcqRel);
            } else {
                self.state.add_waiting();
                word.fetch_xor(AT_LIMIT | QUEUED, Ordering::AcqRel);
                self.queue.push(flow.0, 0);
            }
        }
        self.state.give_slot();
    }

    /// Resumes a flow if one waits and a slot is free; the caller wakes its source.
    ///
    /// Call this until it returns `None`, after packets have left and when a source wakes the
    /// scheduler.
    pub fn resume(&mut self) -> Option<FlowId> {
        loop {
            self.collect();
            if self.queue.is_empty() {
                return None;
            }
            self.open |= self.state.free() >= self.threshold;
            if !self.open || !self.state.take_slot() {
                // Each slot in use becomes free later. It belongs to a packet in the buffer or on
                // its way there, or to a resumed flow, which uses it or returns it and wakes us.
                self.open = false;
                return None;
            }
            while let Some((flow, _)) = self.queue.pop() {
                self.state.remove_waiting();
                if self.grant(flow) {
                    return Some(FlowId(flow));
                }
            }
            // All queued flows have ended. Another flow may have found no free slot and queued
            // while this side held the slot, so the loop checks the inbox again.
            self.state.give_slot();
            if !self.state.inbox_has_flows() {
                return None;
            }
        }
    }

    /// Returns the number of waiting flows in the scheduler's queue, without those in the inbox.
    pub fn waiting(&self) -> u32 {
        self.queue.len()
    }

    /// Returns the number of slots in use: by packets in the buffer, by packets on their way there,
    /// and by resumed flows.
    pub fn occupied(&self) -> u32 {
        self.state.slots - self.state.free()
    }

    /// Moves the flows of the inbox to the queue, in the order in which they arrived.
    fn collect(&mut self) {
        self.arriving.extend(self.state.take_inbox());
        while let Some(flow) = self.arriving.pop() {
            self.queue.push(flow, 0);
        }
    }

    /// Gives a slot to the flow; returns `false` if the flow has ended.
    fn grant(&self, flow: u32) -> bool {
        let grant = |word: u32| (word & CLOSED == 0).then_some(word ^ (QUEUED | GRANTED));
        let word = &self.state.flow(flow).word;
        let granted = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grant).is_ok();
        if !granted {
            // Only this side clears the flag of an ended flow. The number can be reused from now
            // on.
            word.fetch_and(!QUEUED, Ordering::AcqRel);
        }
        granted
    }
}
