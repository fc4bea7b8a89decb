//! The share of late measurements among the last ones.

/// Whether each of the last `KEPT` measurements, at most 128, was in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order<const KEPT: u32> {
    /// One bit for each measurement, set if it was late; the newest is the lowest bit.
    late_bits: u128,
    /// Number of bits set.
    late: u32,
    seen: u32,
}

impl<const KEPT: u32> Order<KEPT> {
    /// Adds a measurement and removes the oldest.
    pub(super) fn remember(&mut self, is_late: bool) {
        let forgotten = (self.late_bits >> (KEPT - 1)) as u32 & 1;
        self.late_bits = self.late_bits << 1 | u128::from(is_late);
        self.late = self.late + u32::from(is_late) - forgotten;
        self.seen = (self.seen + 1).min(KEPT);
    }

    /// Returns the number of late measurements among those kept.
    pub(super) fn late(&self) -> u32 {
        self.late
    }

    /// Returns the share of late measurements, 0 to 1; `None` if there are fewer than `least`.
    pub(super) fn share(&self, least: u32) -> Option<f64> {
        (self.seen >= least).then(|| f64::from(self.late) / f64::from(self.seen))
    }
}
