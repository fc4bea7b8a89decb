/// A part of the scheduled buffer with room of its own: a class of a classful qdisc, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// Packets of the largest size that fit into it empty.
    pub(super) capacity: u32,
    /// How much must be free before flows are resumed, once it has been full.
    threshold: u32,
    /// Packets of ours in it.
    pub(super) occupied: u32,
    /// Flows in the paused-flows queue that wait for it.
    pub(super) waiting: u32,
    /// Flows that were resumed and have not answered: room is kept for each.
    pub(super) invited: u32,
    /// Flows that try again when a packet leaves, and how many may.
    pub(super) retrying: u32,
    pub(super) retries: u32,
    /// Flows with packets in it, waiting for it or invited: among them shares are equal.
    pub(super) contenders: u32,
    /// Whether flows are being resumed: from when enough is free until nothing is.
    open: bool,
}

impl Lane {
    pub(super) fn new(capacity: u32, threshold: u32) -> Self {
        Self {
            capacity,
            threshold,
            occupied: 0,
            waiting: 0,
            invited: 0,
            retrying: 0,
            retries: 0,
            contenders: 0,
            open: true,
        }
    }

    /// The buffer is empty, and has another capacity.
    pub(super) fn reset(&mut self, capacity: u32, threshold: u32) {
        (self.capacity, self.threshold, self.occupied) = (capacity, threshold, 0);
        (self.retries, self.open) = (self.retrying, true);
    }

    /// Of `slots` that are free, those not kept for a flow that was resumed.
    #[inline]
    pub(super) fn unclaimed(&self, slots: u32) -> u32 {
        slots.saturating_sub(self.invited)
    }

    /// A flow was refused for want of room.
    #[inline]
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    /// Whether a flow that waits is to be resumed, `slots` being free. From the threshold on, then
    /// until nothing is unclaimed. With nothing of ours in the buffer no departure will come that
    /// could free more, so that whatever is free must do.
    #[inline]
    pub(super) fn may_resume(&mut self, slots: u32) -> bool {
        let unclaimed = self.unclaimed(slots);
        self.open =
            unclaimed > 0 && (self.open || unclaimed >= self.threshold || self.occupied == 0);
        self.open
    }

    /// The share of one flow, in packets.
    #[inline]
    pub(super) fn share(&self) -> u32 {
        (self.capacity / self.contenders.max(1)).max(1)
    }
}
