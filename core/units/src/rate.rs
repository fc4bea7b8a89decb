use core::fmt;

use crate::{Bytes, Nanos};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Rate(u64);

impl Rate {
    /// Zero bits per second.
    pub const ZERO: Self = Self(0);

    /// Creates a rate of `n` bits per second.
    pub const fn from_bps(n: u64) -> Self {
        Self(n)
    }

    /// Creates a rate of `n` megabits (10^6 bits) per second.
    pub const fn from_mbps(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// Creates a rate of `n` bits per second from a control law's float. Negative values and NaN
    /// become zero.
    pub fn from_bps_f64(n: f64) -> Self {
        Self(n as u64)
    }

    /// Returns the rate at which `bytes` pass in `time`, or zero if `time` is zero.
    pub fn from_bytes_over(bytes: Bytes, time: Nanos) -> Self {
        if time == Nanos::ZERO {
            return Self::ZERO;
        }
        let bps = u128::from(bytes.0) * 8 * NANOS_PER_SEC / u128::from(time.0);
        Self(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// Converts to bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Converts to bytes per second.
    pub fn as_bytes_per_sec_f64(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Converts to megabits (10^6 bits) per second.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time that `bytes` take at this rate, or [`Nanos::MAX`] at rate zero.
    ///
    /// The time is rounded up, since a packet is sent only when its last bit is.
    pub fn time_for(self, bytes: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        // For a packet the product fits into 64 bits, whose division is several times faster.
        if let Some(bits) = bytes.0.checked_mul(8 * NANOS_PER_SEC as u64) {
            return Nanos(bits.div_ceil(self.0));
        }
        let ns = (u128::from(bytes.0) * 8 * NANOS_PER_SEC).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Returns the bytes that pass in `time`, rounded down.
    pub fn bytes_in(self, time: Nanos) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.0) / (8 * NANOS_PER_SEC);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Multiplies the rate by `factor`. A negative or NaN factor gives zero.
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 => write!(f, "{:.3} Mbit/s", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{:.3} kbit/s", n as f64 / 1e3),
            n => write!(f, "{n} bit/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_126_microseconds_at_96_mbps() {
        // 1514 B x 8 / 96e6 = 126.1666... us, rounded up.
        assert_eq!(Rate::from_mbps(96).time_for(Bytes(1514)), Nanos(126_167));
        assert_eq!(Rate::from_mbps(96).bytes_in(Nanos(126_167)), Bytes(1514));
    }

    #[test]
    fn results_that_do_not_fit_saturate() {
        assert_eq!(Rate::ZERO.time_for(Bytes(1)), Nanos::MAX);
        assert_eq!(Rate::from_bytes_over(Bytes(1), Nanos::ZERO), Rate::ZERO);
        assert_eq!(Rate::from_bytes_over(Bytes(u64::MAX), Nanos(1)).as_bps(), u64::MAX);
        assert_eq!(Rate::from_bps(u64::MAX).bytes_in(Nanos::MAX), Bytes(u64::MAX));
    }
}
