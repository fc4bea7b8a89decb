//! The native AQM of the L queue: the probability of a mark by a packet's sojourn time.

use forebay_units::Nanos;

use crate::ConfigError;
use crate::error::within;
use crate::pi2::Params;

/// A ramp of the marking probability from 0 to 1 (RFC 9332 Figure 5); a step if its range is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// The sojourn time up to which no packet is marked.
    pub threshold: Nanos,
    /// The sojourn time above the threshold at which every packet is marked.
    pub range: Nanos,
    /// The queue length, including the departing packet, below which no packet is marked. On a slow
    /// link a single packet takes longer than the threshold to send (RFC 9332 appendix A.2, where
    /// the queue must exceed one packet).
    pub min_packets: u32,
}

impl Ramp {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("native.threshold", self.threshold.0, 0, Params::MAX_TIME.0)?;
        within("native.range", self.range.0, 0, Params::MAX_TIME.0)
    }

    /// Returns the probability of a mark for a packet that waited for `sojourn` in a queue of
    /// `packets`.
    #[inline]
    pub(super) fn probability(&self, sojourn: Nanos, packets: u64) -> f64 {
        if packets < u64::from(self.min_packets) || sojourn <= self.threshold {
            return 0.0;
        }
        let above = sojourn - self.threshold;
        if above >= self.range {
            return 1.0;
        }
        above.as_secs_f64() / self.range.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_rises_linearly_and_spares_a_single_packet() {
        let us = Nanos::from_micros;
        let ramp = Ramp { threshold: us(800), range: us(400), min_packets: 2 };
        for (wait, expected) in [(0, 0.0), (800, 0.0), (900, 0.25), (1100, 0.75), (1200, 1.0)] {
            let off = ramp.probability(us(wait), 2) - expected;
            assert!((-1e-12..1e-12).contains(&off), "{wait} us");
        }
        assert!(ramp.probability(us(5000), 1) == 0.0, "a single packet");
        let step = Ramp { range: Nanos::ZERO, threshold: us(1000), min_packets: 2 };
        assert!(
            step.probability(us(1000), 2) == 0.0 && step.probability(Nanos(1_000_001), 2) == 1.0
        );
    }
}
