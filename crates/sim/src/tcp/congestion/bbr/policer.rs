//! Detection of token-bucket policers: two intervals in a row that lose a fifth and deliver at the
//! same rate (Flach et al., "An internet-wide analysis of traffic policing", SIGCOMM 2016, found
//! them common). That rate is then taken for the path's, for some time.

use forebay_units::{Bytes, Nanos, Rate};

use super::{MSS, SCALE, Sample};

/// An interval lasts so many rounds at least, and four times as many at most.
const ROUNDS: u32 = 4;
/// A share of 50 / 256 of what is delivered is lost.
const LOSS: u64 = 50;
/// Two rates are alike that differ by an eighth, or by 4 kbit/s.
const ALIKE: u64 = 8;
const CLOSE: Rate = Rate::from_bps(4_000);
/// The rate is used for so many rounds.
const USE: u32 = 48;
const SHORTEST: u64 = 1_000_000;

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
    /// The policer's rate, if there seems to be one.
    pub(super) fn rate(&self) -> Option<u64> {
        self.using.then_some(self.bandwidth)
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) fn on_timeout(&mut self, round_start: bool) {
        self.rounds += u32::from(self.sampling && round_start);
    }

    /// Returns true if its rate has been used long enough.
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
        // Without data to send, an interval says nothing; nor does one that is too long.
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
