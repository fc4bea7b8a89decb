//! Room in the window for acknowledgements that come in bursts (draft-cardwell-iccrg-bbr-congestion-
//! control-00 leaves it out; Linux has it since 5.1).

use super::{Connection, SCALE, Sample};

/// The most that came too early is kept for so many rounds, and again as many.
const ROUNDS: u32 = 5;
/// It is at most what the bandwidth carries in so long.
const LONGEST: u64 = 100_000_000;
/// An epoch of so many segments is too old to say anything.
const OLDEST: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    start: u64,
    acked: u64,
    /// The most of the present rounds and of those before.
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

    /// Segments to add to the window.
    pub(super) fn window(&self, bandwidth: u64) -> u32 {
        let most = carried(bandwidth, LONGEST);
        self.extra[0].max(self.extra[1]).min(most) as u32
    }
}

fn carried(bandwidth: u64, time: u64) -> u64 {
    ((u128::from(bandwidth) * u128::from(time)) >> SCALE) as u64
}
