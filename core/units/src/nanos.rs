use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

/// A time span in nanoseconds, or an instant as the span since an origin that the caller chooses.
///
/// The sans-IO crates work with any origin. The daemons use `CLOCK_MONOTONIC`; the simulator uses
/// the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Nanos(pub u64);

impl Nanos {
    /// A span of zero, or the origin.
    pub const ZERO: Self = Self(0);
    /// The largest value, used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a span of `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// Creates a span of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// Creates a span of `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// Creates a span of `s` seconds, for configuration and control laws. Negative values and NaN
    /// become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9) as u64)
    }

    /// Converts to seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Converts to milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the span from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Returns the span from `earlier` to `self`, or `None` if `earlier` is later.
    pub const fn checked_sub(self, earlier: Self) -> Option<Self> {
        match self.0.checked_sub(earlier.0) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Adds `other`; the result is [`Nanos::MAX`] if the sum does not fit.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// Multiplies; the result is [`Nanos::MAX`] if the product does not fit.
impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Nanos {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{:.3} s", self.as_secs_f64()),
            n if n >= 1_000_000 => write!(f, "{:.3} ms", self.as_millis_f64()),
            n => write!(f, "{:.3} us", n as f64 / 1e3),
        }
    }
}
