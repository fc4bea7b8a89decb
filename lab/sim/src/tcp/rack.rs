//! The state of RACK (RFC 8985 section 6): the segment that was sent last of those delivered.

use super::rtt::Rtt;

/// The duplicate acknowledgements that indicate a loss if no reordering was seen.
const DUPLICATES: u32 = 3;
/// The number of recoveries for which an enlarged reordering window is kept.
const PERSIST: u32 = 16;

/// The state of RACK.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// The time at which the segment was sent.
    pub(crate) time: u64,
    /// The end of the segment.
    end: u64,
    /// The round-trip time of the last delivered segment.
    pub(crate) rtt: u64,
    pub(crate) advanced: bool,
    pub(crate) reordering: bool,
    /// The reordering window in quarters of the minimum round-trip time.
    steps: u64,
    persist: u32,
    /// The byte whose acknowledgement allows `steps` to grow again, once per round trip.
    raised_to: u64,
}

impl Rack {
    /// Records the delivery of a segment that was last sent at `time`.
    pub(crate) fn on_delivered(
        &mut self,
        now: u64,
        time: u64,
        end: u64,
        retransmitted: bool,
        rtt: &Rtt,
    ) {
        let took = now - time;
        // Too early for the retransmission, so the original arrived.
        if retransmitted && rtt.min().is_some_and(|min| took < min) {
            return;
        }
        self.advanced = true;
        self.rtt = took;
        if sent_after((time, end), (self.time, self.end)) {
            (self.time, self.end) = (time, end);
        }
    }

    /// Returns whether RACK's segment was sent after a segment with this time and end.
    pub(crate) fn is_past(&self, time: u64, end: u64) -> bool {
        sent_after((self.time, self.end), (time, end))
    }

    /// Returns the reordering window in nanoseconds (RFC 8985 section 6.2 step 4).
    pub(crate) fn patience(&self, recovering: bool, sacked: u32, rtt: &Rtt) -> u64 {
        if !self.reordering && (recovering || sacked >= DUPLICATES) {
            return 0;
        }
        let quarter = rtt.min().unwrap_or(0) / 4;
        (quarter * self.steps.max(1)).min(rtt.smoothed())
    }

    /// Handles a DSACK: enlarges the reordering window if reordering was seen.
    pub(crate) fn on_duplicate(&mut self, una: u64, next: u64) {
        if self.reordering && una >= self.raised_to {
            self.raised_to = next;
            self.steps = (self.steps.max(1) + 1).min(255);
            self.persist = PERSIST;
        }
    }

    /// Keeps the reordering window longer after a spurious recovery.
    pub(crate) fn on_undone(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }
}

fn sent_after(a: (u64, u64), b: (u64, u64)) -> bool {
    a > b
}
