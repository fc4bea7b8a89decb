//! Round-trip times and the retransmission timeout, as Linux computes them.

use forebay_units::Nanos;

/// The smallest variance in the timeout, in nanoseconds (`TCP_RTO_MIN`). RFC 6298 section 2.4
/// instead requires a timeout of at least a second.
pub(crate) const RTO_MIN: u64 = 200_000_000;
/// The longest timeout in nanoseconds (`TCP_RTO_MAX`).
pub(crate) const RTO_MAX: u64 = 120_000_000_000;
/// The timeout in nanoseconds before the first sample (RFC 6298 section 2.1).
const RTO_INITIAL: u64 = 1_000_000_000;

/// The estimator of RFC 6298 with two changes of Linux. The variance is the maximum over a round
/// trip and at least [`RTO_MIN`], and a sample far *below* the mean hardly increases it.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    smoothed: u64,
    deviation: u64,
    /// The largest deviation in this round trip, in the unit of `variance`.
    largest: u64,
    variance: u64,
    /// The byte whose acknowledgement ends the round trip.
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

    /// Adds a sample. `una` is the first unacknowledged byte, and `next` the next byte to send.
    pub(crate) fn sample(&mut self, rtt: u64, una: u64, next: u64) {
        if self.smoothed == 0 {
            self.smoothed = rtt.max(1);
            // RFC 6298 section 2.2: half of the sample, which counts four times.
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

    /// Adds a sample to the minimum only.
    pub(crate) fn note_min(&mut self, rtt: u64) {
        self.min = self.min.min(rtt.max(1));
    }

    /// Returns the smoothed round-trip time in nanoseconds, or zero before the first sample.
    pub(crate) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// Returns the minimum round-trip time in nanoseconds. Linux's minimum expires after five
    /// minutes; this one does not.
    pub(crate) fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// Returns the retransmission timeout without backoff.
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
    fn the_timeout_of_a_steady_path_is_the_rtt_and_200_ms() {
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
