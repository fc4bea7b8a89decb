//! The last round-trip times of some packets.

use forebay_units::Nanos;

/// The last `KEPT` round-trip times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays<const KEPT: usize> {
    /// In microseconds, the newest at the place before `next`.
    last: [u32; KEPT],
    next: usize,
    seen: usize,
}

impl<const KEPT: usize> Default for Delays<KEPT> {
    fn default() -> Self {
        Self { last: [0; KEPT], next: 0, seen: 0 }
    }
}

impl<const KEPT: usize> Delays<KEPT> {
    /// Adds a round-trip time, and removes the oldest.
    pub(super) fn remember(&mut self, rtt: Nanos) {
        self.last[self.next] = u32::try_from(rtt.0 / 1_000).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % KEPT;
        self.seen = (self.seen + 1).min(KEPT);
    }

    /// Returns the shortest of those kept.
    pub(super) fn shortest(&self) -> Option<Nanos> {
        self.kept().iter().min().map(|&us| Nanos::from_micros(us.into()))
    }

    /// Returns the longest of those kept.
    pub(super) fn longest(&self) -> Option<Nanos> {
        self.kept().iter().max().map(|&us| Nanos::from_micros(us.into()))
    }

    /// Returns their mean; `None` if there are fewer than `least`.
    pub(super) fn mean(&self, least: usize) -> Option<Nanos> {
        let sum: u64 = self.kept().iter().copied().map(u64::from).sum();
        (self.seen >= least).then(|| Nanos::from_micros(sum / self.seen as u64))
    }

    /// Returns the number of those kept.
    pub(super) fn seen(&self) -> usize {
        self.seen
    }

    /// Returns the number of those that are longer than `limit`.
    pub(super) fn longer_than(&self, limit: Nanos) -> usize {
        self.kept().iter().filter(|&&us| Nanos::from_micros(us.into()) > limit).count()
    }

    fn kept(&self) -> &[u32] {
        &self.last[..self.seen]
    }
}
