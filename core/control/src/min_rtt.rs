//! The round-trip time of the empty path, estimated as a windowed minimum.

use forebay_units::Nanos;

const BUCKETS: usize = 16;

/// The shortest window (Copa section 2.1).
const WINDOW_FLOOR: Nanos = Nanos::from_secs(10);
/// The shortest window in smoothed round-trip times.
const WINDOW_RTTS: u64 = 30;
/// The most by which a time without samples ages the window. Such a time says nothing about the
/// path, and the first samples after it may see a queue that built meanwhile.
const SILENCE_CAP: Nanos = Nanos::from_millis(100);
/// A sample below this share of the minimum needs a second one to confirm it. A single one may be a
/// false match of two packets with one fingerprint, and would spoil the minimum for a whole window.
const SUSPICIOUS: f64 = 0.75;

/// The minimum over the last max(10 s, 30 smoothed RTT) in which there were samples.
///
/// The window has 16 buckets, so a sample is forgotten after 15/16 to 16/16 of the window.
///
/// The order of the fields is fixed: a tick uses only the first two, and the buckets are used only
/// when one ends. This matters when thousands of bundles exceed the CPU caches.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MinRtt {
    min: Option<Nanos>,
    /// When a sample last was as good as the minimum.
    seen_at: Nanos,
    /// The minimum of the current bucket.
    least: Nanos,
    /// The minimum of all other buckets.
    least_before: Nanos,
    /// Time with samples spent in the current bucket.
    spent: Nanos,
    last_sample: Option<Nanos>,
    /// The last sample that was suspiciously small and needs a second one.
    candidate: Option<Nanos>,
    /// Whether aging is stopped.
    held: bool,
    /// Whether the minimum is an earlier process's, and no sample has been as good yet.
    unconfirmed: bool,
    /// The index of the current bucket.
    current: u8,
    /// The minimum of each bucket except the current one.
    buckets: [Nanos; BUCKETS],
}

impl MinRtt {
    /// Number of bytes at the start of the struct that every tick uses.
    pub(crate) const NEEDED: usize = core::mem::offset_of!(Self, least);

    pub(crate) fn new() -> Self {
        Self {
            min: None,
            seen_at: Nanos::ZERO,
            least: Nanos::MAX,
            least_before: Nanos::MAX,
            spent: Nanos::ZERO,
            last_sample: None,
            candidate: None,
            held: false,
            unconfirmed: false,
            current: 0,
            buckets: [Nanos::MAX; BUCKETS],
        }
    }

    /// Returns the minimum, `None` before the first sample.
    pub(crate) fn get(&self) -> Option<Nanos> {
        self.min
    }

    /// Returns how long ago a sample last was as good as the minimum.
    pub(crate) fn age(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.seen_at)
    }

    /// Takes in a sample. `smoothed` is the smoothed round-trip time. A sample within `tolerance`
    /// of the minimum counts as good as the minimum.
    pub(crate) fn on_sample(&mut self, now: Nanos, rtt: Nanos, smoothed: Nanos, tolerance: Nanos) {
        if self.held {
            self.last_sample = Some(now);
        } else {
            self.advance(now, smoothed);
        }
        let Some(sample) = self.confirmed(rtt) else {
            return;
        };
        self.least = self.least.min(sample);
        self.min = Some(self.least.min(self.least_before)).filter(|&m| m != Nanos::MAX);
        if self.min.is_some_and(|m| sample <= m.saturating_add(tolerance)) {
            self.seen_at = now;
            self.unconfirmed = false;
        }
    }

    /// Replaces the minimum by `rtt`, since the path has another length now.
    pub(crate) fn reset(&mut self, now: Nanos, rtt: Nanos) {
        self.seen_at = now;
        self.buckets = [Nanos::MAX; BUCKETS];
        (self.least, self.least_before) = (rtt, Nanos::MAX);
        self.candidate = None;
        self.unconfirmed = false;
        self.min = Some(rtt);
    }

    /// Takes a minimum that an earlier process last saw `age` ago. The path may have changed since,
    /// so this minimum ages also while aging is stopped, until a sample is as good.
    pub(crate) fn remember(&mut self, now: Nanos, rtt: Nanos, age: Nanos) {
        self.reset(now, rtt);
        self.seen_at = now.saturating_sub(age);
        self.unconfirmed = true;
    }

    /// Returns whether the minimum is an earlier process's, and no sample has been as good yet.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.unconfirmed
    }

    /// Stops or resumes aging. It is stopped while cross traffic keeps the queue full, since the
    /// empty path cannot be seen then.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held && !self.unconfirmed;
    }

    /// Returns the sample to use, `None` if it is suspiciously small and not confirmed yet.
    fn confirmed(&mut self, rtt: Nanos) -> Option<Nanos> {
        let suspicious = self.min.is_some_and(|m| (rtt.0 as f64) < m.0 as f64 * SUSPICIOUS);
        if !suspicious {
            self.candidate = None;
            return Some(rtt);
        }
        let earlier = self.candidate.replace(rtt);
        earlier.map(|e| e.max(rtt))
    }

    /// Ages the window by the time since the last sample.
    fn advance(&mut self, now: Nanos, smoothed: Nanos) {
        let since = self.last_sample.map_or(Nanos::ZERO, |t| now.saturating_sub(t));
        self.last_sample = Some(now);
        self.spent = self.spent.saturating_add(since.min(SILENCE_CAP.max(smoothed)));
        let span = WINDOW_FLOOR.max(Nanos(smoothed.0.saturating_mul(WINDOW_RTTS))) / BUCKETS as u64;
        if self.spent < span {
            return;
        }
        self.spent = self.spent - span;
        self.buckets[usize::from(self.current)] = core::mem::replace(&mut self.least, Nanos::MAX);
        self.current = (self.current + 1) % BUCKETS as u8;
        self.buckets[usize::from(self.current)] = Nanos::MAX;
        self.least_before = self.buckets.iter().copied().min().unwrap_or(Nanos::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = Nanos::from_millis(1);

    fn feed(min: &mut MinRtt, from: u64, to: u64, rtt: u64) {
        for t in from..to {
            min.on_sample(MS * (t * 10), MS * rtt, MS * rtt, MS);
        }
    }

    #[test]
    fn an_old_minimum_expires_after_the_window() {
        let mut min = MinRtt::new();
        assert_eq!(min.get(), None);
        feed(&mut min, 0, 10, 50);
        feed(&mut min, 10, 930, 60);
        assert_eq!(min.get(), Some(MS * 50), "9.3 s of 10 s later");
        feed(&mut min, 930, 1020, 60);
        assert_eq!(min.get(), Some(MS * 60), "10.2 s later");
    }

    #[test]
    fn the_window_grows_with_the_round_trip_time() {
        let mut min = MinRtt::new();
        // The window is 30 x 1 s = 30 s.
        feed(&mut min, 0, 1, 999);
        feed(&mut min, 1, 2700, 1000);
        assert_eq!(min.get(), Some(MS * 999));
        feed(&mut min, 2700, 3100, 1000);
        assert_eq!(min.get(), Some(MS * 1000));
    }

    #[test]
    fn the_minimum_does_not_age_without_samples() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 50);
        min.on_sample(Nanos::from_secs(3600), MS * 150, MS * 150, MS);
        assert_eq!(min.get(), Some(MS * 50));
    }

    #[test]
    fn the_minimum_does_not_age_while_held() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 50);
        min.hold(true);
        feed(&mut min, 10, 5000, 120);
        assert_eq!(min.get(), Some(MS * 50));
        min.hold(false);
        feed(&mut min, 5000, 6020, 120);
        assert_eq!(min.get(), Some(MS * 120));
    }

    #[test]
    fn a_much_smaller_sample_needs_confirmation() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 80);
        min.on_sample(MS * 100, MS, MS * 80, MS);
        assert_eq!(min.get(), Some(MS * 80));
        min.on_sample(MS * 110, MS * 81, MS * 80, MS);
        min.on_sample(MS * 120, MS * 50, MS * 80, MS);
        assert_eq!(min.get(), Some(MS * 80), "a normal sample came between the two small ones");
        min.on_sample(MS * 130, MS * 51, MS * 80, MS);
        assert_eq!(min.get(), Some(MS * 51), "the larger of the two");
    }

    #[test]
    fn age_counts_from_the_last_good_sample() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 50);
        min.on_sample(MS * 200, MS * 51, MS * 50, MS);
        min.on_sample(MS * 300, MS * 52, MS * 50, MS);
        assert_eq!(min.age(MS * 300), MS * 100);
    }

    #[test]
    fn a_remembered_minimum_is_held_only_once_a_sample_confirms_it() {
        let remembered = || {
            let mut min = MinRtt::new();
            min.remember(MS * 5000, MS * 50, MS * 3000);
            assert_eq!((min.get(), min.age(MS * 5000)), (Some(MS * 50), MS * 3000));
            min
        };
        let held = |mut min: MinRtt, from: u64, to| {
            for t in from..to {
                min.hold(true);
                min.on_sample(MS * (t * 10), MS * 120, MS * 120, MS);
            }
            min
        };
        let min = held(remembered(), 500, 1400);
        assert_eq!((min.get(), min.age(MS * 14_000)), (Some(MS * 50), MS * 12_000));
        let min = held(min, 1400, 1520);
        assert_eq!(min.get(), Some(MS * 120), "the path is longer");
        let mut min = remembered();
        min.on_sample(MS * 5000, MS * 51, MS * 51, MS);
        assert_eq!(min.age(MS * 5000), Nanos::ZERO);
        assert_eq!(held(min, 501, 2000).get(), Some(MS * 50), "the path is as it was");
    }

    #[test]
    fn reset_replaces_the_minimum() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 50);
        min.reset(MS * 100, MS * 80);
        assert_eq!(min.get(), Some(MS * 80));
    }

    proptest! {
        /// Compares with a naive model: the minimum lies between the true minimum of the last
        /// window and a bucket, and that of the last window less a bucket.
        #[test]
        fn the_minimum_lies_between_two_true_minima(rtts in prop::collection::vec(80u64..100, 1..3000)) {
            let mut min = MinRtt::new();
            let step = 10;
            for (i, &rtt) in rtts.iter().enumerate() {
                min.on_sample(MS * (i as u64 * step), MS * rtt, MS * 90, MS);
                let naive = |window_ms: u64| {
                    let n = (window_ms / step) as usize;
                    rtts[(i + 1).saturating_sub(n)..=i].iter().min().copied().unwrap()
                };
                let got = min.get().unwrap();
                prop_assert!(got >= MS * naive(10_020));
                prop_assert!(got <= MS * naive(9_300));
            }
        }
    }
}
