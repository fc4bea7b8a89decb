//! Room in the window for aggregated acknowledgements, which come in bursts.
//!
//! draft-cardwell-iccrg-bbr-congestion-control-00 does not have it; Linux has it since 5.1.

use super::{Connection, SCALE, Sample};

/// The number of rounds in each of the two windows of the maximum filter.
const ROUNDS: u32 = 5;
/// The time in nanoseconds whose traffic limits the extra window.
const MAX_EXTRA_TIME: u64 = 100_000_000;
/// The number of acknowledged segments after which an epoch restarts.
const OLDEST: u64 = 1 << 20;

/// The estimator of segments that were acknowledged earlier than the bandwidth explains.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    start: u64,
    acked: u64,
    /// The maxima of the current and of the previous rounds.
    extra: [u64; 2],
    rounds: u32,
    index: usize,
}

impl Aggregation {
    pub(super) fn begin(&mut self, now: u64) {
        (self.start, self.acked) = (now, 0);
    }

    pub(super) fn update(
        &mut self,
        bandwidth: u64,
        round_start: bool,
        window: u32,
        c: &Connection,
        s: &Sample,
    ) {
        if s.newly == 0 || s.interval == 0 {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.index ^= 1;
                self.extra[self.index] = 0;
            }
        }
        let expected = |since: u64| carried(bandwidth, c.now.saturating_sub(since));
        let newly = u64::from(s.newly);
        if self.acked <= expected(self.start) || self.acked + newly >= OLDEST {
            self.begin(c.now);
        }
        self.acked += newly;
        let extra = (self.acked - expected(self.start)).min(u64::from(window));
        self.extra[self.index] = self.extra[self.index].max(extra);
    }

    /// Returns the segments to add to the window.
    pub(super) fn window(&self, bandwidth: u64) -> u32 {
        let most = carried(bandwidth, MAX_EXTRA_TIME);
        self.extra[0].max(self.extra[1]).min(most) as u32
    }
}

fn carried(bandwidth: u64, time: u64) -> u64 {
    ((u128::from(bandwidth) * u128::from(time)) >> SCALE) as u64
}
