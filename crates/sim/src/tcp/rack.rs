//! RACK's knowledge (RFC 8985 section 6): when the segment was sent that arrived latest of all
//! those known to have arrived.

use super::rtt::Rtt;

/// Duplicate acknowledgements that tell a loss where nothing was ever reordered.
const DUPLICATES: u32 = 3;
/// Recoveries for which a widened window of reordering is kept.
const PERSIST: u32 = 16;

#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// When it was sent, its end, and how long it took.
    pub(crate) time: u64,
    end: u64,
    pub(crate) rtt: u64,
    pub(crate) advanced: bool,
    pub(crate) reordering: bool,
    /// In quarters of the least round-trip time.
    steps: u64,
    persist: u32,
    /// Steps are raised once a round trip.
    raised_to: u64,
}

impl Rack {
    /// A segment arrived that was sent last at `time`.
    pub(crate) fn on_delivered(
        &mut self,
        now: u64,
        time: u64,
        end: u64,
        retransmitted: bool,
        rtt: &Rtt,
    ) {
        let took = now - time;
        // Too quick for the copy: the original arrived.
        if retransmitted && rtt.min().is_some_and(|min| took < min) {
            return;
        }
        self.advanced = true;
        self.rtt = took;
        if sent_after((time, end), (self.time, self.end)) {
            (self.time, self.end) = (time, end);
        }
    }

    /// Whether the latest arrival was sent after a segment.
    pub(crate) fn is_past(&self, time: u64, end: u64) -> bool {
        sent_after((self.time, self.end), (time, end))
    }

    /// How much later than others a segment may arrive (RFC 8985 section 6.2 step 4).
    pub(crate) fn patience(&self, recovering: bool, sacked: u32, rtt: &Rtt) -> u64 {
        if !self.reordering && (recovering || sacked >= DUPLICATES) {
            return 0;
        }
        let quarter = rtt.min().unwrap_or(0) / 4;
        (quarter * self.steps.max(1)).min(rtt.smoothed())
    }

    /// The peer says that something came twice. More patience, if anything was ever reordered.
    pub(crate) fn on_duplicate(&mut self, una: u64, next: u64) {
        if self.reordering && una >= self.raised_to {
            self.raised_to = next;
            self.steps = (self.steps.max(1) + 1).min(255);
            self.persist = PERSIST;
        }
    }

    /// All was taken back: keep the patience that there is.
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
