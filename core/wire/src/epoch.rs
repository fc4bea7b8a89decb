use core::fmt;

/// The epoch size N: on average one packet in N is an epoch boundary.
///
/// N is a power of two. If the two boxes disagree about the size for a moment, the boundary packets
/// of one are then a subset of the other's (Bundler section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochSize {
    log2: u8,
}

impl EpochSize {
    /// The smallest size, at which every packet is a boundary.
    pub const MIN: Self = Self { log2: 0 };
    /// The largest size, 2^24 packets. At a hundred million packets a second there are six
    /// boundaries a second.
    pub const MAX: Self = Self { log2: 24 };

    /// Returns the epoch size 2^`log2`.
    ///
    /// # Errors
    /// Returns an error if the size is larger than [`EpochSize::MAX`].
    pub const fn from_log2(log2: u8) -> Result<Self, InvalidEpochSize> {
        if log2 > Self::MAX.log2 {
            return Err(InvalidEpochSize);
        }
        Ok(Self { log2 })
    }

    /// Returns the epoch size of `packets`.
    ///
    /// # Errors
    /// Returns an error if `packets` is not a power of two or larger than [`EpochSize::MAX`].
    pub const fn from_packets(packets: u32) -> Result<Self, InvalidEpochSize> {
        if !packets.is_power_of_two() {
            return Err(InvalidEpochSize);
        }
        Self::from_log2(packets.trailing_zeros() as u8)
    }

    /// Returns the binary logarithm of the size, as messages carry it.
    pub const fn log2(self) -> u8 {
        self.log2
    }

    /// Returns the size in packets.
    pub const fn packets(self) -> u32 {
        1 << self.log2
    }
}

impl fmt::Display for EpochSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets", self.packets())
    }
}

/// The error for a number that is not an epoch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidEpochSize;

impl fmt::Display for InvalidEpochSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an epoch size must be a power of two from 1 to 16777216 packets")
    }
}

impl core::error::Error for InvalidEpochSize {}

/// Returns whether a packet with this fingerprint is an epoch boundary.
pub const fn is_boundary(fingerprint: u32, epoch: EpochSize) -> bool {
    fingerprint & (epoch.packets() - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_in_range() {
        assert_eq!(EpochSize::from_packets(1), Ok(EpochSize::MIN));
        assert_eq!(EpochSize::from_packets(1 << 24), Ok(EpochSize::MAX));
        assert_eq!(EpochSize::from_packets(64).map(EpochSize::log2), Ok(6));
        for wrong in [0, 3, 96, 1 << 25, u32::MAX] {
            assert_eq!(EpochSize::from_packets(wrong), Err(InvalidEpochSize), "{wrong}");
        }
        assert_eq!(EpochSize::from_log2(25), Err(InvalidEpochSize));
    }
}
