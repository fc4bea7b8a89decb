//! The last round-trip times of some packets.

use forebay_units::Nanos;

/// The last `KEPT` round-trip times, in microseconds. Their sum and extremes are kept with them,
/// since each feedback message asks for these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays<const KEPT: usize> {
    sum: u64,
    shortest: u32,
    longest: u32,
    next: usize,
    seen: usize,
    /// The newest at the place before `next`.
    last: [u32; KEPT],
}

impl<const KEPT: usize> Default for Delays<KEPT> {
    fn default() -> Self {
        Self { sum: 0, shortest: u32::MAX, longest: 0, next: 0, seen: 0, last: [0; KEPT] }
    }
}

impl<const KEPT: usize> Delays<KEPT> {
    /// Adds a round-trip time, and removes the oldest.
    pub(super) fn remember(&mut self, rtt: Nanos) {
        let new = u32::try_from(rtt.0 / 1_000).unwrap_or(u32::MAX);
        let old = core::mem::replace(&mut self.last[self.next], new);
        self.next = (self.next + 1) % KEPT;
        self.sum += u64::from(new);
        if self.seen < KEPT {
            self.seen += 1;
        } else {
            self.sum -= u64::from(old);
            // An extreme that goes is rare: only then all are looked at.
            if old == self.shortest {
                self.shortest = self.kept().iter().copied().min().unwrap_or(new);
            }
            if old == self.longest {
                self.longest = self.kept().iter().copied().max().unwrap_or(new);
            }
        }
        (self.shortest, self.longest) = (self.shortest.min(new), self.longest.max(new));
    }

    /// Returns the shortest of those kept.
    pub(super) fn shortest(&self) -> Option<Nanos> {
        (self.seen > 0).then(|| Nanos::from_micros(self.shortest.into()))
    }

    /// Returns the longest of those kept.
    pub(super) fn longest(&self) -> Option<Nanos> {
        (self.seen > 0).then(|| Nanos::from_micros(self.longest.into()))
    }

    /// Returns their mean; `None` if there are fewer than `least`.
    pub(super) fn mean(&self, least: usize) -> Option<Nanos> {
        let mean = self.sum.checked_div(self.seen as u64)?;
        (self.seen >= least).then(|| Nanos::from_micros(mean))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_and_extremes_are_those_of_the_last_ones(
            delays in prop::collection::vec(0_u64..20, 0..60)
        ) {
            let mut kept = Delays::<8>::default();
            for end in 0..delays.len() {
                kept.remember(Nanos::from_micros(delays[end]));
                let last = &delays[(end + 1).saturating_sub(8)..=end];
                let micros = |us: Option<&u64>| us.map(|us| Nanos::from_micros(*us));
                prop_assert_eq!(kept.shortest(), micros(last.iter().min()));
                prop_assert_eq!(kept.longest(), micros(last.iter().max()));
                let mean = last.iter().sum::<u64>() / last.len() as u64;
                let enough = (last.len() >= 3).then(|| Nanos::from_micros(mean));
                prop_assert_eq!(kept.mean(3), enough);
            }
        }
    }
}
