//! A policer: a token bucket that drops what exceeds it, without a queue.

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::network::SetupError;

/// The credit of a byte, the product of a rate of 1 bit/s and a time in nanoseconds for 8 bits.
const BYTE: u128 = 8_000_000_000;

/// The configuration of a [`Policer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicerConfig {
    /// The rate at which credit grows, above zero.
    pub rate: Rate,
    /// The most credit, which the policer has at the start; at least a full packet.
    pub burst: Bytes,
}

/// Decides whether each packet passes at once or is dropped (RFC 2697 with one bucket).
#[derive(Clone, Debug)]
pub struct Policer {
    config: PolicerConfig,
    /// The credit at `updated`, in units of [`BYTE`].
    credit: u128,
    updated: Nanos,
}

impl Policer {
    /// Creates a policer whose bucket is full.
    ///
    /// # Errors
    /// Fails if a full packet could never pass.
    pub fn new(config: PolicerConfig) -> Result<Self, SetupError> {
        if config.rate == Rate::ZERO || config.burst.0 < super::FULL {
            let must = "of a rate above zero and a burst of at least 1514 B";
            return Err(SetupError::Range { what: "a policer", must });
        }
        let credit = u128::from(config.burst.0) * BYTE;
        Ok(Self { config, credit, updated: Nanos::ZERO })
    }

    /// Returns whether a packet of `len` that arrives at `now` passes. Times must not decrease.
    pub fn passes(&mut self, now: Nanos, len: Bytes) -> bool {
        let passed = u128::from(now.saturating_sub(self.updated).0);
        let earned = u128::from(self.config.rate.as_bps()) * passed;
        self.credit = (self.credit + earned).min(u128::from(self.config.burst.0) * BYTE);
        self.updated = self.updated.max(now);
        let cost = u128::from(len.0) * BYTE;
        let passes = cost <= self.credit;
        if passes {
            self.credit -= cost;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        // At 8 Mbit/s a packet of 1000 B earns its credit in a millisecond.
        let config = PolicerConfig { rate: Rate::from_mbps(8), burst: Bytes(3_000) };
        let mut policer = Policer::new(config).unwrap();
        let mut passes = |us| policer.passes(Nanos::from_micros(us), Bytes(1_000));
        assert_eq!([0, 0, 0, 0].map(&mut passes), [true, true, true, false]);
        assert_eq!([999, 1_000, 1_001].map(&mut passes), [false, true, false]);
        assert_eq!([90_000, 90_000, 90_000, 90_000].map(passes), [true, true, true, false]);
        for (rate, burst) in [(Rate::ZERO, 3_000), (Rate::from_mbps(8), 1_513)] {
            assert!(Policer::new(PolicerConfig { rate, burst: Bytes(burst) }).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_more_passes_than_the_rate_and_a_burst(
            packets in prop::collection::vec((0u64..2_000_000, 60u64..=1_514), 1..200),
        ) {
            let config = PolicerConfig { rate: Rate::from_mbps(5), burst: Bytes(6_000) };
            let mut policer = Policer::new(config).unwrap();
            let (mut now, mut passed) = (Nanos::ZERO, 0);
            for (gap, len) in packets {
                now += Nanos(gap);
                passed += if policer.passes(now, Bytes(len)) { len } else { 0 };
                prop_assert!(passed <= 6_000 + config.rate.bytes_in(now).0 + 1);
            }
        }
    }
}
