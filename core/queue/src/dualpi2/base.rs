//! The base AQM of the coupled dual queue, whose base probability p' decides both queues' signals.

use forebay_units::Nanos;

use super::curvy_red::{Average, CurvyRed};
use crate::{ConfigError, pi2};

/// The AQM that computes the base probability p' from the queue delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base {
    /// PI2's controller, which holds the delay at a target (RFC 9332 appendix A).
    Pi2(pi2::Params),
    /// Curvy RED, which lets the delay grow with the load (RFC 9332 appendix B).
    CurvyRed(CurvyRed),
}

impl Base {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Pi2(params) => params.check(),
            Self::CurvyRed(params) => params.check(),
        }
    }
}

/// The state of the base AQM.
#[derive(Clone, Copy, Debug)]
pub(super) enum Control {
    /// Is updated periodically.
    Pi2(pi2::Control),
    /// Is updated at departures.
    CurvyRed(Average),
}

impl Control {
    /// Creates the state at rest; p' is at most `most`.
    pub(super) fn new(base: Base, most: f64) -> Self {
        match base {
            Base::Pi2(params) => Self::Pi2(pi2::Control::new(params, most)),
            Base::CurvyRed(params) => Self::CurvyRed(Average::new(params, most)),
        }
    }

    /// Returns the base probability p'.
    #[inline]
    pub(super) fn base(&self) -> f64 {
        match self {
            Self::Pi2(control) => control.base(),
            Self::CurvyRed(average) => average.base(),
        }
    }

    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        matches!(self, Self::Pi2(control) if control.is_due(now))
    }

    /// Returns the time of the next update that is due by `now`. The caller makes it with
    /// [`Control::update`].
    pub(super) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::Pi2(control) => control.take(now),
            Self::CurvyRed(_) => None,
        }
    }

    /// Updates p' for a queue delay of `delay`.
    pub(super) fn update(&mut self, delay: Nanos) {
        match self {
            Self::Pi2(control) => control.update(delay),
            Self::CurvyRed(average) => average.update(delay),
        }
    }
}
