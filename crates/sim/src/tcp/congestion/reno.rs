//! Reno (RFC 5681), and DCTCP (RFC 8257), which is Reno but for the size of its cuts.

use super::{Connection, Sample, Window};

/// Slow start, then a segment per round trip.
pub(super) fn grow(window: &mut Window, c: &Connection, acked: u32) {
    if !c.cwnd_limited {
        return;
    }
    let left = if window.slow_start() { window.double(acked) } else { acked };
    if left > 0 {
        window.add(window.size, left);
    }
}

/// The share of marked segments, averaged over round trips, in 1024ths.
const ONE: u64 = 1024;
/// The average's gain is 2^-4 (RFC 8257 section 4.2).
const GAIN_SHIFT: u64 = 4;

/// DCTCP's estimate of how much is marked.
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    alpha: u64,
    acked: u64,
    marked: u64,
    round_end: u64,
}

impl Dctcp {
    pub(super) fn new() -> Self {
        // Conservative until known (RFC 8257 section 4.2 recommends 1).
        Self { alpha: ONE, acked: 0, marked: 0, round_end: 0 }
    }

    pub(super) fn on_ack(&mut self, c: &Connection, sample: &Sample) {
        self.acked += u64::from(sample.newly);
        self.marked += u64::from(sample.marked);
        if c.una > self.round_end {
            let share = self.marked * ONE / self.acked.max(1);
            self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT) + (share >> GAIN_SHIFT);
            (self.acked, self.marked, self.round_end) = (0, 0, c.next);
        }
    }

    pub(super) fn on_congestion(&self, window: &Window) -> u32 {
        let cut = u64::from(window.size) * self.alpha / (2 * ONE);
        (window.size - cut as u32).max(2)
    }
}
