use forebay_units::Nanos;

use crate::controller::Measurement;

/// BtlBw counts as growing if it grows by this factor in a round.
const GROWTH: f64 = 1.25;
/// Rounds without growth after which the path is full.
const ROUNDS: u32 = 3;

/// Detects that startup has filled the path, because BtlBw has stopped growing (Cardwell et al.,
/// "Startup behavior"). Rounds in which the traffic did not fill the rate do not count.
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    round_since: Nanos,
    bandwidth: f64,
    rounds: u32,
}

impl FullPipe {
    pub(super) fn new(now: Nanos) -> Self {
        Self { round_since: now, ..Self::default() }
    }

    /// Returns whether the path is full, given BtlBw as `bandwidth` and the length of a round.
    pub(super) fn on_tick(&mut self, m: &Measurement, round: Nanos, bandwidth: f64) -> bool {
        if m.now.saturating_sub(self.round_since) < round {
            return false;
        }
        self.round_since = m.now;
        if bandwidth >= GROWTH * self.bandwidth {
            self.bandwidth = bandwidth;
            self.rounds = 0;
        } else if m.limited_for >= round {
            self.rounds += 1;
        }
        self.rounds >= ROUNDS
    }
}
