//! Round-trip times and the retransmission timeout, as Linux computes them.

use forebay_units::Nanos;

/// The least part of the timeout that is variance (`TCP_RTO_MIN`); RFC 6298 section 2.4 would have
/// the whole be a second at least.
pub(crate) const RTO_MIN: u64 = 200_000_000;
/// The longest timeout (`TCP_RTO_MAX`).
pub(crate) const RTO_MAX: u64 = 120_000_000_000;
/// Before there is a sample (RFC 6298 section 2.1).
const RTO_INITIAL: u64 = 1_000_000_000;

/// The estimator of RFC 6298 with two changes of Linux's: the variance is the maximum over a round
/// trip, never less than [`RTO_MIN`]; and a sample far *below* the mean hardly raises it.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    smoothed: u64,
    deviation: u64,
    /// The largest deviation in this round trip.
    largest: u64,
    variance: u64,
    /// The round trip ends when this is acknowledged.
    round_end: u64,
    min: u64,
}

impl Rtt {
    pub(crate) fn new() -> Self {
        Self {
            smoothed: 0,
            deviation: RTO_INITIAL,
            largest: 0,
            variance: 0,
            round_end: 0,
            min: u64::MAX,
        }
    }

    /// A sample, when `una` is the first byte not acknowledged and `next` the next to be sent.
    pub(crate) fn sample(&mut self, rtt: u64, una: u64, next: u64) {
        if self.smoothed == 0 {
            self.smoothed = rtt.max(1);
            // RFC 6298 section 2.2: half the sample, four times of which count.
            self.deviation = rtt / 2;
            self.variance = (rtt * 2).max(RTO_MIN);
            self.largest = self.variance;
            self.round_end = next;
            return;
        }
        let error = rtt.abs_diff(self.smoothed);
        let above = rtt >= self.smoothed;
        self.smoothed = if above { self.smoothed + error / 8 } else { self.smoothed - error / 8 };
        self.deviation = if error <= self.deviation {
            self.deviation - (self.deviation - error) / 4
        } else {
            let step = (error - self.deviation) / 4;
            self.deviation + if above { step } else { step / 8 }
        };
        self.largest = self.largest.max(self.deviation * 4);
        self.variance = self.variance.max(self.largest);
        if una > self.round_end {
            self.variance -= (self.variance - self.largest) / 4;
            self.round_end = next;
            self.largest = RTO_MIN;
        }
    }

    /// A sample for the minimum only.
    pub(crate) fn note_min(&mut self, rtt: u64) {
        self.min = self.min.min(rtt.max(1));
    }

    /// The smoothed round-trip time in nanoseconds, zero before the first sample.
    pub(crate) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// The least round-trip time seen. Linux forgets it after five minutes; no run is that long
    /// while its path changes.
    pub(crate) fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// The retransmission timeout, without backoff.
    pub(crate) fn timeout(&self) -> Nanos {
        if self.smoothed == 0 {
            return Nanos(RTO_INITIAL);
        }
        Nanos((self.smoothed + self.variance).min(RTO_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_steady_path_times_out_after_an_rtt_and_200_ms() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.timeout(), Nanos::from_secs(1));
        for n in 0..200 {
            rtt.sample(50 * MS, n, n + 10);
        }
        assert_eq!(rtt.smoothed(), 50 * MS);
        assert_eq!(rtt.timeout(), Nanos(250 * MS));
    }

    #[test]
    fn a_jump_up_raises_the_timeout_more_than_a_jump_down() {
        let after = |sample| {
            let mut rtt = Rtt::new();
            for n in 0..2000 {
                rtt.sample(300 * MS, n, n + 10);
            }
            for n in 2000..2010 {
                rtt.sample(sample, n, n + 10);
            }
            rtt.timeout().0 - rtt.smoothed()
        };
        assert!(after(300 * MS) < RTO_MIN + MS);
        assert!(after(600 * MS) > 2 * after(1));
    }
}
