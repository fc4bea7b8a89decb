//! A part of the scheduled buffer with its own limit.

/// A part of the scheduled buffer with its own room: a class of a classful qdisc, or the whole
/// buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// Packets of the largest size that fit into the empty lane.
    pub(super) capacity: u32,
    /// Slots that must be free before flows are resumed, once the lane has been full.
    threshold: u32,
    /// Packets of the gate's flows in the lane.
    pub(super) occupied: u32,
    /// Flows in the paused-flows queue that wait for the lane.
    pub(super) waiting: u32,
    /// Slots reserved for flows that were resumed and have not responded, one for each.
    pub(super) reserved: u32,
    /// Paused flows that retry when a packet leaves.
    pub(super) retrying: u32,
    /// How many of the retrying flows may retry now.
    pub(super) retries: u32,
    /// Flows that have packets in the lane, wait for it or were resumed; they have equal shares.
    pub(super) contenders: u32,
    /// Whether flows are resumed: from when the threshold is reached until no slot is free.
    open: bool,
}

impl Lane {
    pub(super) fn new(capacity: u32, threshold: u32) -> Self {
        Self {
            capacity,
            threshold,
            occupied: 0,
            waiting: 0,
            reserved: 0,
            retrying: 0,
            retries: 0,
            contenders: 0,
            open: true,
        }
    }

    /// Adapts to a new, empty buffer of another capacity.
    pub(super) fn reset(&mut self, capacity: u32, threshold: u32) {
        (self.capacity, self.threshold, self.occupied) = (capacity, threshold, 0);
        (self.retries, self.open) = (self.retrying, true);
    }

    /// Returns how many of the free `slots` are not reserved for a resumed flow.
    #[inline]
    pub(super) fn unclaimed(&self, slots: u32) -> u32 {
        slots.saturating_sub(self.reserved)
    }

    /// Stops resuming flows, after a flow found no room.
    #[inline]
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    /// Returns whether a waiting flow may be resumed while `slots` are free.
    ///
    /// It may from when the threshold is reached until no slot is unclaimed. If the lane is empty,
    /// no departure will free more slots, and any free slot is enough.
    #[inline]
    pub(super) fn may_resume(&mut self, slots: u32) -> bool {
        let unclaimed = self.unclaimed(slots);
        self.open =
            unclaimed > 0 && (self.open || unclaimed >= self.threshold || self.occupied == 0);
        self.open
    }

    /// Returns the share of one flow in packets, at least one.
    #[inline]
    pub(super) fn share(&self) -> u32 {
        (self.capacity / self.contenders.max(1)).max(1)
    }
}
