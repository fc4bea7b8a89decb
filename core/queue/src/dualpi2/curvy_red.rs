//! Curvy RED, the alternative base AQM of the coupled dual queue (RFC 9332 appendix B).

use forebay_units::Nanos;

use crate::ConfigError;
use crate::error::{real_within, within};
use crate::pi2::Params;

/// The parameters of Curvy RED.
///
/// The base probability p' is (Q - `min_threshold`) / `range`, where Q is the moving average of the
/// queue delay. Classic packets are dropped with its square, so the drop probability follows a
/// curve where that of RED is a straight line. This is the RFC's curviness U = 1, the only one that
/// was ever tested.
///
/// | | RFC 9332 appendix B.1 | here |
/// |---|---|---|
/// | average updated | when a classic packet departs | also when an L4S packet departs while the C queue is empty; otherwise L4S would be marked for the last classic packets forever |
/// | delay that is averaged | that of the C queue | by [`Input`](super::Input); the greater of both limits unresponsive L4S traffic too |
/// | overload | to be added as in appendix A.2 | as in appendix A.2 |
/// | `min_threshold` | 500 ms in Figure 9, which is twice the buffer of line 3 of that figure: nothing would ever be signalled; none in Figure 11 | none |
/// | coupled and native marks of the L queue | either of two random choices | one choice with the greater probability, as with PI2 |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvyRed {
    /// The weight of a new delay in the moving average, gamma; 1/32 by default (Figure 9, lines 8
    /// and 12).
    pub weight: f64,
    /// The delay up to which there are no classic or coupled signals, minTh.
    pub min_threshold: Nanos,
    /// The delay above `min_threshold` at which p' would be one, range_C; 500 ms by default
    /// (Figure 9, lines 9 and 13).
    pub range: Nanos,
}

impl Default for CurvyRed {
    fn default() -> Self {
        Self { weight: 1.0 / 32.0, min_threshold: Nanos::ZERO, range: Nanos::from_millis(500) }
    }
}

impl CurvyRed {
    /// The smallest weight of a new delay. With a smaller one the average would not follow the
    /// queue within a million packets.
    pub const MIN_WEIGHT: f64 = 1e-6;

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        real_within("weight", self.weight, Self::MIN_WEIGHT, 1.0)?;
        within("min_threshold", self.min_threshold.0, 0, Params::MAX_TIME.0)?;
        within("range", self.range.0, 1, Params::MAX_TIME.0)
    }
}

/// The state of Curvy RED.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    params: CurvyRed,
    /// The moving average of the queue delay, Q_C, in seconds.
    delay: f64,
    /// The maximum of the base probability.
    most: f64,
}

impl Average {
    pub(super) fn new(params: CurvyRed, most: f64) -> Self {
        Self { params, delay: 0.0, most }
    }

    /// Adds the delay at a departure to the average (Figure 10, line 9a).
    pub(super) fn update(&mut self, delay: Nanos) {
        let weight = self.params.weight;
        self.delay = weight * delay.as_secs_f64() + (1.0 - weight) * self.delay;
    }

    /// Returns the base probability p' (Figure 10, line 10a).
    #[inline]
    pub(super) fn base(&self) -> f64 {
        let above = self.delay - self.params.min_threshold.as_secs_f64();
        (above / self.params.range.as_secs_f64()).clamp(0.0, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (-1e-12..=1e-12).contains(&(a - b))
    }

    /// The weight is 1/32, the range 500 ms. Computed by hand from lines 9a and 10a of Figure 10.
    #[test]
    fn the_base_probability_matches_the_formula() {
        let steps = [
            (32, 0.001),              // 32/32 ms
            (32, 0.001_968_75),       // (32 + 31 x 1)/32 ms
            (0, 0.001_907_226_562_5), // 31 x 1.968 75/32 ms
            (96, 0.004_847_625_732_421_875),
        ];
        let none = CurvyRed::default();
        let some = CurvyRed { min_threshold: Nanos::from_millis(1), ..none };
        let (mut zero, mut above) = (Average::new(none, 1.0), Average::new(some, 1.0));
        for (ms, average) in steps {
            zero.update(Nanos::from_millis(ms));
            above.update(Nanos::from_millis(ms));
            assert!(close(zero.base(), average / 0.5), "{ms} ms: {}", zero.base());
            assert!(close(above.base(), (average - 0.001) / 0.5), "{ms} ms: {}", above.base());
        }
        // At an average of 100 ms p' is 0.2: L4S is marked with 0.4, classic dropped with 0.04.
        for _ in 0..2000 {
            zero.update(Nanos::from_millis(100));
        }
        assert!(close(zero.base(), 0.2));
        for _ in 0..2000 {
            zero.update(Nanos::from_secs(10));
        }
        assert!(close(zero.base(), 1.0), "clamped");
    }

    /// The integer code of Figure 11 holds a delay in nanoseconds, shifts it left by two, and takes
    /// the result for 2^-32. A second is 2^30 ns there, so its probabilities are 0.9313 times those
    /// of Figure 10.
    #[test]
    fn the_integer_code_of_the_rfc_has_the_same_probabilities() {
        const SECOND: f64 = 1e9 / 1_073_741_824.0;
        let mut average = Average::new(CurvyRed::default(), 1.0);
        let mut integer = 0_i64;
        let mut delay = 5_000_000_u64;
        for step in 0..500_u64 {
            // A delay that wanders between 5 and 105 ms.
            delay = 5_000_000 + (delay * 31 + step * 977_777) % 100_000_000;
            average.update(Nanos(delay));
            integer += (delay as i64 - integer) >> 5;
            // S_C is -1, and a shift to the right by -3 is one to the left by 3.
            let theirs = (integer << 3) as f64 / 4_294_967_296.0;
            // Each step of the integers loses up to a nanosecond, which the average keeps 32 times.
            let off = average.base() * SECOND - theirs;
            assert!((-1e-7..1e-6).contains(&off), "step {step}: {} {theirs}", average.base());
        }
        assert!(average.base() > 0.05);
    }
}
