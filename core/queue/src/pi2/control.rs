//! The PI controller of PI2, which holds a delay at its target by a base probability.

use forebay_units::Nanos;

use crate::ConfigError;
use crate::error::{real_within, within};
use crate::ticker::Ticker;

/// The parameters of the PI controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// The target delay.
    pub target: Nanos,
    /// The time between updates of the base probability.
    pub tupdate: Nanos,
    /// The change of the base probability per update and per second of delay above target, in
    /// hertz.
    pub alpha: f64,
    /// The change of the base probability per update and per second of delay growth since the
    /// update before, in hertz.
    pub beta: f64,
}

impl Default for Params {
    /// Returns 15 ms, 15 ms, 0.15 Hz and 3 Hz, which RFC 9332 Figure 2 derives from a longest
    /// round-trip time of 100 ms.
    fn default() -> Self {
        Self::for_rtt_max(Nanos::from_millis(15), Nanos::from_millis(100))
    }
}

impl Params {
    /// The longest target and update time: a minute.
    pub const MAX_TIME: Nanos = Nanos::from_secs(60);
    /// The largest gain in hertz, at which a millisecond moves the probability from zero to one.
    pub const MAX_GAIN: f64 = 1000.0;

    /// Returns parameters that are stable up to a round-trip time of `rtt_max` (RFC 9332 Figure 2,
    /// lines 12 to 14).
    #[must_use]
    pub fn for_rtt_max(target: Nanos, rtt_max: Nanos) -> Self {
        let tupdate = target.min(rtt_max / 3);
        let rtt_max = rtt_max.as_secs_f64();
        let alpha = 0.1 * tupdate.as_secs_f64() / (rtt_max * rtt_max);
        Self { target, tupdate, alpha, beta: 0.3 / rtt_max }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("target", self.target.0, 1, Self::MAX_TIME.0)?;
        within("tupdate", self.tupdate.0, 1_000, Self::MAX_TIME.0)?;
        real_within("alpha", self.alpha, 0.0, Self::MAX_GAIN)?;
        real_within("beta", self.beta, 0.0, Self::MAX_GAIN)
    }
}

/// The state of the PI controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    params: Params,
    ticker: Ticker,
    /// The base probability, p' in the RFC.
    base: f64,
    /// The maximum of the base probability.
    most: f64,
    /// The delay at the update before.
    previous: Nanos,
}

impl Control {
    pub(crate) fn new(params: Params, most: f64) -> Self {
        let ticker = Ticker::new(params.tupdate);
        Self { params, ticker, base: 0.0, most, previous: Nanos::ZERO }
    }

    /// Returns the base probability, p' in the RFC.
    #[inline]
    pub(crate) fn base(&self) -> f64 {
        self.base
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.ticker.is_due(now)
    }

    /// Returns the time of the next update that is due by `now`. The caller makes it with
    /// [`Control::update`].
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        self.ticker.take(now)
    }

    /// Updates the base probability for a delay of `delay` (RFC 9332 Figure 6, line 3).
    pub(crate) fn update(&mut self, delay: Nanos) {
        let error = delay.as_secs_f64() - self.params.target.as_secs_f64();
        let growth = delay.as_secs_f64() - self.previous.as_secs_f64();
        let step = self.params.alpha * error + self.params.beta * growth;
        self.base = (self.base + step).clamp(0.0, self.most);
        self.previous = delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        let off = a - b;
        (-1e-12..=1e-12).contains(&off)
    }

    /// Each step is 0.15 x (delay - 15 ms) + 3 x growth.
    #[test]
    fn updates_match_the_formula() {
        let mut control = Control::new(Params::default(), 1.0);
        let steps = [
            (20, 0.000_75 + 0.06),   // 0.060 75
            (20, 0.000_75),          // 0.061 5
            (15, -0.015),            // 0.046 5
            (10, -0.000_75 - 0.015), // 0.030 75
            (115, 0.015 + 0.315),    // 0.360 75
        ];
        let mut expected = 0.0;
        for (ms, step) in steps {
            expected += step;
            control.update(Nanos::from_millis(ms));
            assert!(close(control.base(), expected), "{ms} ms: {}", control.base());
        }
        assert!(close(expected, 0.360_75));
        control.update(Nanos::from_millis(1000));
        assert!(close(control.base(), 1.0), "clamped");
        control.update(Nanos::ZERO);
        assert!(close(control.base(), 0.0), "clamped");
    }

    /// Compares steps with Linux (6.17, `sch_dualpi2`).
    ///
    /// Linux stores its gains in 256ths of a hertz, 41 and 819 by default. It scales them to its
    /// 32-bit probability in integers: `(gain * 2^30) / 10^9` per nanosecond, divided by 64. The
    /// results are 44 and 879, or 0.16007 and 3.1978 Hz. From zero, a first delay of 20 ms gives
    /// (5 ms x 44 + 20 ms x 879) / 64 = 278 125 000 of 2^32, and a second one 3 437 500 more.
    #[test]
    fn the_gains_of_linux_give_the_steps_of_linux() {
        const ONE: f64 = 4_294_967_296.0;
        let hertz = |gain: f64| gain * 1e9 / 64.0 / ONE;
        let params = Params { alpha: hertz(44.0), beta: hertz(879.0), ..Params::default() };
        let mut control = Control::new(params, 1.0);
        control.update(Nanos::from_millis(20));
        assert!(close(control.base(), 278_125_000.0 / ONE), "{}", control.base());
        assert!((0.064_756..0.064_757).contains(&control.base()));
        control.update(Nanos::from_millis(20));
        assert!(close(control.base(), 281_562_500.0 / ONE), "0.0008 more");
    }

    #[test]
    fn parameters_follow_from_the_longest_round_trip_time() {
        let default = Params::default();
        assert_eq!(default.tupdate, Nanos::from_millis(15));
        assert!(close(default.alpha, 0.15) && close(default.beta, 3.0));
        let short = Params::for_rtt_max(Nanos::from_millis(15), Nanos::from_millis(30));
        assert_eq!(short.tupdate, Nanos::from_millis(10));
        assert!(close(short.alpha, 0.1 * 0.01 / 0.0009) && close(short.beta, 10.0));
    }
}
