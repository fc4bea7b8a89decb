//! The PI controller of PI2: a base probability that holds a delay at its target.

use forebay_units::Nanos;

use crate::ConfigError;
use crate::error::{real_within, within};
use crate::ticker::Ticker;

/// The controller's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// The delay to hold.
    pub target: Nanos,
    /// The time between updates of the base probability.
    pub tupdate: Nanos,
    /// By how much the base probability changes in an update for a second above target, in hertz.
    pub alpha: f64,
    /// By how much the base probability changes in an update for a second more than at the update
    /// before, in hertz.
    pub beta: f64,
}

impl Default for Params {
    /// 15 ms, 15 ms, 0.15 Hz, 3 Hz: as RFC 9332 Figure 2 derives them from a longest round trip of
    /// 100 ms.
    fn default() -> Self {
        Self::for_rtt_max(Nanos::from_millis(15), Nanos::from_millis(100))
    }
}

impl Params {
    /// The longest target and update time: a minute.
    pub const MAX_TIME: Nanos = Nanos::from_secs(60);
    /// The largest gain, in hertz: a millisecond moves the probability from zero to one.
    pub const MAX_GAIN: f64 = 1000.0;

    /// Stable up to round trips of `rtt_max` (RFC 9332 Figure 2, lines 12 to 14).
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    params: Params,
    ticker: Ticker,
    /// The base probability, p' in the RFC.
    base: f64,
    /// The highest base probability.
    most: f64,
    previous: Nanos,
}

impl Control {
    pub(crate) fn new(params: Params, most: f64) -> Self {
        let ticker = Ticker::new(params.tupdate);
        Self { params, ticker, base: 0.0, most, previous: Nanos::ZERO }
    }

    /// The base probability, p' in the RFC.
    #[inline]
    pub(crate) fn base(&self) -> f64 {
        self.base
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.ticker.is_due(now)
    }

    /// The time of the next update that is due by `now`; [`Control::update`] makes it.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        self.ticker.take(now)
    }

    /// A step of the controller (RFC 9332 Figure 6, line 3), at a delay of `delay`.
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

    /// 0.15 x (delay - 15 ms) + 3 x growth.
    #[test]
    fn updates_by_hand() {
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

    /// Linux (6.17, `sch_dualpi2`) keeps its gains in 256ths of a hertz, 41 and 819 by default, and
    /// scales them to its 32-bit probability in integers: `(gain * 2^30) / 10^9` to a nanosecond,
    /// of which a 64th counts. 44 and 879 are left of them, 0.16007 and 3.1978 Hz. From zero, a first
    /// delay of 20 ms gives (5 ms x 44 + 20 ms x 879) / 64 = 278 125 000 of 2^32, a second one
    /// 3 437 500 more.
    #[test]
    fn the_gains_of_linux_give_its_steps() {
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
    fn parameters_follow_from_the_longest_round_trip() {
        let default = Params::default();
        assert_eq!(default.tupdate, Nanos::from_millis(15));
        assert!(close(default.alpha, 0.15) && close(default.beta, 3.0));
        let short = Params::for_rtt_max(Nanos::from_millis(15), Nanos::from_millis(30));
        assert_eq!(short.tupdate, Nanos::from_millis(10));
        assert!(close(short.alpha, 0.1 * 0.01 / 0.0009) && close(short.beta, 10.0));
    }
}
