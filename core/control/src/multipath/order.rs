//! The share of late measurements among the last ones.

/// Number of measurements kept.
const KEPT: u32 = u128::BITS;

/// Whether each of the last 128 measurements was in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// One bit for each measurement, set if it was late; the newest is the lowest bit.
    late_bits: u128,
    /// Number of bits set.
    late: u32,
    seen: u32,
}

impl Order {
    /// Adds a measurement and removes the oldest.
    pub(super) fn remember(&mut self, is_late: bool) {
        let forgotten = (self.late_bits >> (KEPT - 1)) as u32;
        self.late_bits = self.late_bits << 1 | u128::from(is_late);
        self.late = self.late + u32::from(is_late) - forgotten;
        self.seen = (self.seen + 1).min(KEPT);
    }

    /// Returns the share of late measurements, 0 to 1; `None` if there are fewer than `least`.
    pub(super) fn share(&self, least: u32) -> Option<f64> {
        (self.seen >= least).then(|| f64::from(self.late) / f64::from(self.seen))
    }
}
