//! HyStart (Ha and Rhee, "Taming the elephants: New TCP slow start", 2011) as in Linux's Cubic:
//! slow start ends when a train of acknowledgements is as long as half the round trip, or when the
//! round trip has become longer by an eighth.

use super::{Connection, Window};
use crate::tcp::MSS;

/// Windows below this are not judged.
const LOW_WINDOW: u32 = 16;
/// Acknowledgements closer than this belong to one train.
const TRAIN_GAP: u64 = 2_000_000;
/// Round-trip times looked at in each round.
const SAMPLES: u32 = 8;
/// How much longer the round trip must be: within these, an eighth of the least.
const DELAY_MIN: u64 = 4_000_000;
const DELAY_MAX: u64 = 16_000_000;
/// A sender may hold a few super-packets, or a millisecond, back.
const BURST: u64 = 4 * 65_536;
const BURST_MAX: u64 = 1_000_000;

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
    /// Rounds begin when what is sent up to `next` is acknowledged.
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

    /// A round-trip time was measured in slow start; ends it by setting the threshold.
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
