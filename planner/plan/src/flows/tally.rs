//! Sums of octets by entry and prefix, in adjacent bins of time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::flows::time::{Span, Window};

/// The most sums over all bins.
pub const MAX_CELLS: usize = 1_000_000;

/// The key of a sum: the index of the entry, and that of the prefix or router of users.
pub(crate) type Key = (u32, u32);

/// A sum of octets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sum {
    /// The octets, with sampling corrected.
    pub(crate) octets: f64,
    /// The variance that comes from sampling.
    pub(crate) variance: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, other: Self) {
        self.octets += other.octets;
        self.variance += other.variance;
    }

    /// Returns 1.96 standard deviations relative to the octets: the true value is within, with a
    /// probability of 95 %.
    pub(crate) fn error(&self) -> f64 {
        if self.octets > 0.0 { 1.96 * self.variance.sqrt() / self.octets } else { 0.0 }
    }

    /// Returns what sampled packets stand for, if each is taken with probability 1/`factor`.
    ///
    /// This is the Horvitz-Thompson estimator. Its variance is estimated as the sum of the packets'
    /// squared lengths times `factor * (factor - 1)`. Only the sum of the lengths is known. So the
    /// sum of their squares is bounded by the sum times the largest length, which is Ethernet's
    /// unless the mean is above it.
    pub(crate) fn sampled(octets: u64, packets: Option<u64>, factor: f64) -> Self {
        let octets = octets as f64;
        let mean = packets.filter(|p| *p > 0).map_or(0.0, |packets| octets / packets as f64);
        let variance = factor * (factor - 1.0) * octets * mean.max(1500.0);
        Self { octets: factor * octets, variance }
    }

    fn part(&self, share: f64) -> Self {
        Self { octets: self.octets * share, variance: self.variance * share * share }
    }
}

/// How the octets of a flow were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Added {
    /// The octets that were added to sums.
    pub(crate) within: f64,
    /// The octets in bins without room for another sum.
    pub(crate) full: f64,
}

/// Bins of equal width.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The start of the first bin.
    begin: i64,
    width: i64,
    bins: VecDeque<HashMap<Key, Sum>>,
    cells: usize,
    most: usize,
}

impl Tally {
    /// Creates `bins` bins of `width` milliseconds; the first starts at `begin`.
    pub(crate) fn new(begin: i64, width: i64, bins: usize) -> Self {
        let bins = (0..bins.max(1)).map(|_| HashMap::new()).collect();
        Self { begin, width: width.max(1), bins, cells: 0, most: MAX_CELLS }
    }

    /// Returns the window from the start of the first bin to the end of the last.
    pub(crate) fn reach(&self) -> Window {
        let length = self.width.saturating_mul(self.bins.len() as i64);
        Window { begin: self.begin, end: self.begin.saturating_add(length) }
    }

    /// Adds a flow, spread over its time.
    pub(crate) fn add(&mut self, key: Key, sum: Sum, span: Span) -> Added {
        let mut added = Added::default();
        let reach = self.reach();
        if span.end < reach.begin || span.start >= reach.end {
            return added;
        }
        let bin = |at: i64| (at.clamp(reach.begin, reach.end - 1) - reach.begin) / self.width;
        for at in bin(span.start)..=bin(span.end) {
            let begin = self.begin + at * self.width;
            let share = Window { begin, end: begin + self.width }.share(span);
            let part = sum.part(share);
            let Some(bin) = self.bins.get_mut(at as usize).filter(|_| share > 0.0) else {
                continue;
            };
            if self.cells >= self.most && !bin.contains_key(&key) {
                added.full += part.octets;
                continue;
            }
            self.cells += usize::from(!bin.contains_key(&key));
            bin.entry(key).or_default().add(part);
            added.within += part.octets;
        }
        added
    }

    /// Extends the bins to end at or after `end`, and drops as many of the oldest.
    pub(crate) fn advance(&mut self, end: i64) {
        let behind = end.saturating_sub(self.reach().end);
        if behind <= 0 {
            return;
        }
        let steps = behind.div_euclid(self.width) + i64::from(behind.rem_euclid(self.width) > 0);
        self.begin = self.begin.saturating_add(steps.saturating_mul(self.width));
        for _ in 0..steps.min(self.bins.len() as i64) {
            if let Some(mut oldest) = self.bins.pop_front() {
                self.cells -= oldest.len();
                oldest.clear();
                self.bins.push_back(oldest);
            }
        }
    }

    /// Returns the window of the last whole bins that end at or before `end` and cover at most
    /// `length` milliseconds.
    pub(crate) fn last(&self, end: i64, length: i64) -> Window {
        let last = (end.min(self.reach().end) - self.begin).div_euclid(self.width).max(0);
        let first = (last - length / self.width).max(0);
        let at = |bin: i64| self.begin + bin * self.width;
        Window { begin: at(first), end: at(last) }
    }

    /// Returns the sums of all bins within `window`, in a fixed order, so that sums of them repeat
    /// exactly.
    pub(crate) fn sums(&self, window: Window) -> BTreeMap<Key, Sum> {
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        for (bin, at) in self.bins.iter().zip(0..) {
            let begin = self.begin + at * self.width;
            if begin >= window.begin && begin + self.width <= window.end {
                for (key, sum) in bin {
                    sums.entry(*key).or_default().add(*sum);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: Key = (1, 2);

    fn octets(octets: f64) -> Sum {
        Sum { octets, variance: 0.0 }
    }

    #[test]
    fn errors_of_sampling_match_hand_calculations() {
        assert_eq!(Sum::sampled(1500, Some(1), 1.0), octets(1500.0));
        // 100 packets of 1500 octets, one of 10: the error of a count of 100 is 1.96 * sqrt(0.9) /
        // 10.
        let sum = Sum::sampled(150_000, Some(100), 10.0);
        assert_eq!(sum.octets, 1.5e6);
        assert!((sum.error() - 1.96 * 0.9_f64.sqrt() / 10.0).abs() < 1e-12);
        assert_eq!(Sum::sampled(150_000, None, 10.0), sum);
        // Jumbo frames are larger than Ethernet's.
        assert_eq!(Sum::sampled(9000, Some(1), 10.0).variance, 90.0 * 9000.0 * 9000.0);
        assert_eq!(Sum::sampled(0, Some(0), 10.0).error(), 0.0);
    }

    #[test]
    fn bins_advance_with_time() {
        let mut tally = Tally::new(1000, 100, 3);
        assert_eq!(tally.reach(), Window { begin: 1000, end: 1300 });
        let added = tally.add(KEY, octets(400.0), Span { start: 900, end: 1300 });
        assert_eq!(added, Added { within: 300.0, full: 0.0 });
        tally.advance(1350);
        assert_eq!(tally.reach(), Window { begin: 1100, end: 1400 });
        assert_eq!(tally.sums(tally.reach())[&KEY].octets, 200.0);
        assert_eq!(tally.sums(Window { begin: 1150, end: 1400 })[&KEY].octets, 100.0);
        assert_eq!(tally.last(1399, 200), Window { begin: 1100, end: 1300 });
        assert_eq!(tally.last(1100, 200), Window { begin: 1100, end: 1100 });
        tally.advance(i64::MAX / 2);
        assert!(tally.sums(tally.reach()).is_empty() && tally.cells == 0);
    }

    #[test]
    fn cells_are_bounded() {
        let mut tally = Tally::new(0, 100, 2);
        tally.most = 2;
        let both = Span { start: 50, end: 150 };
        assert_eq!(tally.add(KEY, octets(10.0), both), Added { within: 10.0, full: 0.0 });
        assert_eq!(tally.add((1, 3), octets(10.0), both), Added { within: 0.0, full: 10.0 });
        assert_eq!(tally.add(KEY, octets(10.0), both).within, 10.0, "sums that are there go on");
        tally.advance(300);
        let added = tally.add((1, 3), octets(10.0), Span { start: 100, end: 300 });
        assert_eq!(
            added,
            Added { within: 5.0, full: 5.0 },
            "one bin has gone, and its cell with it"
        );
    }

    proptest! {
        #[test]
        fn bins_hold_the_octets_of_their_window(
            flows in prop::collection::vec((0_i64..2000, 0_i64..2000, 1.0_f64..1e9), 1..20),
            bins in 1_usize..40,
        ) {
            let mut tally = Tally::new(500, 25, bins);
            let window = tally.reach();
            let (mut expected, mut within) = (0.0, 0.0);
            for (start, length, amount) in flows {
                let span = Span { start, end: start + length };
                expected += amount * window.share(span);
                within += tally.add(KEY, octets(amount), span).within;
            }
            let found = tally.sums(window).get(&KEY).map_or(0.0, |s| s.octets);
            prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0));
            prop_assert!((within - expected).abs() <= 1e-9 * expected.max(1.0));
        }
    }
}
