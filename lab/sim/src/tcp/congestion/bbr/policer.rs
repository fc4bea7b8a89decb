//! Detection of token-bucket policers, which are common (Flach et al., "An internet-wide analysis
//! of traffic policing", SIGCOMM 2016).
//!
//! Two consecutive intervals that lose a fifth and deliver at the same rate indicate a policer. BBR
//! then uses that rate as the path's for some time.

use forebay_units::{Bytes, Nanos, Rate};

use super::{MSS, SCALE, Sample};

/// The minimum length of an interval in rounds; the maximum is four times as many.
const ROUNDS: u32 = 4;
/// The minimum ratio of lost to delivered segments, in 256ths.
const LOSS: u64 = 50;
/// The divisor of a rate that gives the difference up to which two rates are equal: an eighth.
const ALIKE: u64 = 8;
/// The absolute difference up to which two rates are equal.
const CLOSE: Rate = Rate::from_bps(4_000);
/// The number of rounds for which the rate of a policer is used.
const USE: u32 = 48;
/// The minimum length of an interval in nanoseconds.
const SHORTEST: u64 = 1_000_000;

/// The state of the detection.
#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    using: bool,
    rounds: u32,
    bandwidth: u64,
    start: u64,
    delivered: u64,
    losses: u64,
}

impl Policer {
    /// Returns the rate of the policer, if one was detected.
    pub(super) fn rate(&self) -> Option<u64> {
        self.using.then_some(self.bandwidth)
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) fn on_timeout(&mut self, round_start: bool) {
        self.rounds += u32::from(self.sampling && round_start);
    }

    /// Handles a sample. Returns whether the use of a policer's rate ends.
    pub(super) fn update(&mut self, now: u64, round_start: bool, steady: bool, s: &Sample) -> bool {
        if self.using {
            self.rounds += u32::from(steady && round_start);
            let over = self.rounds >= USE;
            if over {
                self.reset();
            }
            return over;
        }
        if !self.sampling {
            if s.losses == 0 {
                return false;
            }
            self.sampling = true;
            self.begin(now, s);
        }
        // An interval without data to send, or one that is too long, is not valid.
        if s.app_limited || self.rounds + u32::from(round_start) > 4 * ROUNDS {
            self.reset();
            return false;
        }
        self.rounds += u32::from(round_start);
        if self.rounds >= ROUNDS && s.losses > 0 {
            self.end(now, s);
        }
        false
    }

    fn begin(&mut self, now: u64, s: &Sample) {
        (self.start, self.rounds) = (now, 0);
        (self.delivered, self.losses) = (s.delivered, s.all_losses);
    }

    fn end(&mut self, now: u64, s: &Sample) {
        let delivered = s.delivered - self.delivered;
        let lost = s.all_losses - self.losses;
        let time = now - self.start;
        if delivered == 0 || lost * 256 < LOSS * delivered || time < SHORTEST {
            return;
        }
        let bandwidth = ((u128::from(delivered) << SCALE) / u128::from(time)) as u64;
        let apart = bandwidth.abs_diff(self.bandwidth);
        if self.bandwidth > 0 && (apart <= self.bandwidth / ALIKE || as_rate(apart) <= CLOSE) {
            self.bandwidth = bandwidth.midpoint(self.bandwidth);
            (self.using, self.rounds) = (true, 0);
            return;
        }
        self.bandwidth = bandwidth;
        self.begin(now, s);
    }
}

fn as_rate(bandwidth: u64) -> Rate {
    let bytes = (u128::from(bandwidth) * u128::from(MSS) * 1_000_000_000) >> SCALE;
    Rate::from_bytes_over(Bytes(bytes as u64), Nanos::from_secs(1))
}
