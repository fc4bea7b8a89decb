//! HyStart (Ha and Rhee, "Taming the elephants: New TCP slow start", 2011) as in Linux's Cubic.
//!
//! Slow start ends when a train of acknowledgements is as long as half of the round trip, or when
//! the round-trip time has grown by an eighth.

use super::{Connection, Window};
use crate::tcp::MSS;

/// The smallest window in segments at which slow start may end.
const LOW_WINDOW: u32 = 16;
/// The gap in nanoseconds up to which acknowledgements belong to one train.
const TRAIN_GAP: u64 = 2_000_000;
/// The number of round-trip times used in each round.
const SAMPLES: u32 = 8;
/// The lower bound of the growth of the round-trip time, in nanoseconds.
const DELAY_MIN: u64 = 4_000_000;
/// The upper bound of the growth of the round-trip time, in nanoseconds.
const DELAY_MAX: u64 = 16_000_000;
/// The bytes that a sender may hold back at the pacing rate: four super-packets.
const BURST: u64 = 4 * 65_536;
/// The longest time in nanoseconds that a sender may hold data back.
const BURST_MAX: u64 = 1_000_000;

/// The state of HyStart.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    found: bool,
    round_start: u64,
    last_ack: u64,
    round_end: u64,
    least: u64,
    samples: u32,
}

impl HyStart {
    /// Creates the state; the first round ends when `next` is acknowledged.
    pub(super) fn new(now: u64, next: u64) -> Self {
        Self {
            found: false,
            round_start: now,
            last_ack: now,
            round_end: next,
            least: u64::MAX,
            samples: 0,
        }
    }

    fn start_round(&mut self, c: &Connection) {
        (self.round_start, self.last_ack, self.round_end) = (c.now, c.now, c.next);
        (self.least, self.samples) = (u64::MAX, 0);
    }

    /// Handles a round-trip time, and ends slow start by setting the threshold.
    pub(super) fn on_rtt(&mut self, window: &mut Window, c: &Connection, rtt: u64, least: u64) {
        if self.found || !window.slow_start() {
            return;
        }
        if c.una > self.round_end {
            self.start_round(c);
        }
        if window.size < LOW_WINDOW {
            return;
        }
        if c.now - self.last_ack <= TRAIN_GAP {
            self.last_ack = c.now;
            let rate = window.default_pacing(window.size, c.smoothed_rtt, MSS).max(1);
            let held = (BURST * 1_000_000_000 / rate).min(BURST_MAX);
            let threshold = (least + held) / 2;
            self.found |= c.now - self.round_start > threshold;
        }
        self.least = self.least.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let longer = (least / 8).clamp(DELAY_MIN, DELAY_MAX);
            self.found |= self.least > least + longer;
        }
        if self.found {
            window.threshold = window.size;
        }
    }
}
