//! The round-trip time of the empty path: a windowed minimum that ages.

use forebay_units::Nanos;

const BUCKETS: usize = 16;

/// At least this long a window (Copa section 2.1),
const WINDOW_FLOOR: Nanos = Nanos::from_secs(10);
/// And at least this many smoothed round-trip times.
const WINDOW_RTTS: u64 = 30;
/// Time without samples ages the window by no more than this: silence says nothing about the path,
/// and after it the first samples may come from a queue that built meanwhile.
const SILENCE_CAP: Nanos = Nanos::from_millis(100);
/// A sample below this share of the minimum must be seen twice. One alone may be a false match
/// (two packets with one fingerprint), and would spoil the minimum for a whole window.
const SUSPICIOUS: f64 = 0.75;

/// The minimum over the last max(10 s, 30 smoothed RTT) in which samples came, in 16 buckets: it
/// forgets a sample after between 15/16 and 16/16 of the window.
///
/// The fields lie as they are declared: a tick needs the first two, and the buckets are needed only when
/// one is over; a bundle is one of thousands that do not fit into the caches.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MinRtt {
    min: Option<Nanos>,
    /// When a sample last was as good as the minimum.
    seen_at: Nanos,
    /// The least of the current bucket, and of all others.
    least: Nanos,
    least_before: Nanos,
    /// Sample time spent in the current bucket.
    spent: Nanos,
    last_sample: Option<Nanos>,
    /// The last sample that was suspiciously small and awaits a second.
    candidate: Option<Nanos>,
    /// Nothing ages.
    held: bool,
    current: u8,
    /// The least of each bucket but the current one.
    buckets: [Nanos; BUCKETS],
}

impl MinRtt {
    /// How much of it every tick needs, in bytes from its start.
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
            current: 0,
            buckets: [Nanos::MAX; BUCKETS],
        }
    }

    /// The minimum, once there was a sample.
    pub(crate) fn get(&self) -> Option<Nanos> {
        self.min
    }

    /// How long ago a sample last was as good as the minimum.
    pub(crate) fn age(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.seen_at)
    }

    /// Takes in a sample. `smoothed` is the smoothed round-trip time; samples within `tolerance` of
    /// the minimum are as good as it.
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
        }
    }

    /// Replaces all that was seen: the path has another length now.
    pub(crate) fn reset(&mut self, now: Nanos, rtt: Nanos) {
        self.seen_at = now;
        self.buckets = [Nanos::MAX; BUCKETS];
        (self.least, self.least_before) = (rtt, Nanos::MAX);
        self.candidate = None;
        self.min = Some(rtt);
    }

    /// Lets nothing age for now: where others keep the queue full, the empty path is not seen.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    fn confirmed(&mut self, rtt: Nanos) -> Option<Nanos> {
        let suspicious = self.min.is_some_and(|m| (rtt.0 as f64) < m.0 as f64 * SUSPICIOUS);
        if !suspicious {
            self.candidate = None;
            return Some(rtt);
        }
        let earlier = self.candidate.replace(rtt);
        earlier.map(|e| e.max(rtt))
    }

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
    fn old_minimum_expires_after_the_window() {
        let mut min = MinRtt::new();
        assert_eq!(min.get(), None);
        feed(&mut min, 0, 10, 50);
        feed(&mut min, 10, 930, 60);
        assert_eq!(min.get(), Some(MS * 50), "9.3 s of 10 s later");
        feed(&mut min, 930, 1020, 60);
        assert_eq!(min.get(), Some(MS * 60), "10.2 s later");
    }

    #[test]
    fn window_grows_with_the_round_trip_time() {
        let mut min = MinRtt::new();
        // 30 x 1 s = 30 s.
        feed(&mut min, 0, 1, 999);
        feed(&mut min, 1, 2700, 1000);
        assert_eq!(min.get(), Some(MS * 999));
        feed(&mut min, 2700, 3100, 1000);
        assert_eq!(min.get(), Some(MS * 1000));
    }

    #[test]
    fn silence_does_not_age() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 50);
        min.on_sample(Nanos::from_secs(3600), MS * 150, MS * 150, MS);
        assert_eq!(min.get(), Some(MS * 50));
    }

    #[test]
    fn nothing_ages_while_held() {
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
    fn a_much_smaller_sample_needs_a_second() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 80);
        min.on_sample(MS * 100, MS, MS * 80, MS);
        assert_eq!(min.get(), Some(MS * 80));
        min.on_sample(MS * 110, MS * 81, MS * 80, MS);
        min.on_sample(MS * 120, MS * 50, MS * 80, MS);
        assert_eq!(min.get(), Some(MS * 80), "the first was not confirmed by a normal one");
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
    fn reset_forgets() {
        let mut min = MinRtt::new();
        feed(&mut min, 0, 10, 50);
        min.reset(MS * 100, MS * 80);
        assert_eq!(min.get(), Some(MS * 80));
    }

    proptest! {
        /// Against a naive model: never below the true minimum of the last window and a bucket,
        /// never above that of the last window less a bucket.
        #[test]
        fn between_two_true_minima(rtts in prop::collection::vec(80u64..100, 1..3000)) {
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
