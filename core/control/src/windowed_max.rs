use forebay_units::Nanos;

const BUCKETS: usize = 8;

/// The maximum over a sliding window of time, in 8 buckets. A value is forgotten after 7/8 to 8/8
/// of the window. Time passes only with new values, so none is forgotten while no value comes.
#[derive(Debug, Default)]
pub(crate) struct WindowedMax {
    buckets: [f64; BUCKETS],
    current: usize,
    /// When the current bucket began.
    since: Nanos,
}

impl WindowedMax {
    /// Returns the maximum, zero before the first value.
    pub(crate) fn get(&self) -> f64 {
        self.buckets.iter().copied().fold(0.0, f64::max)
    }

    /// Takes in a value that counts for `window`.
    pub(crate) fn update(&mut self, now: Nanos, window: Nanos, value: f64) {
        let span = (window / BUCKETS as u64).max(Nanos(1));
        let elapsed = now.saturating_sub(self.since);
        if elapsed < span {
            self.raise(value);
            return;
        }
        let passed = (elapsed.0 / span.0).min(BUCKETS as u64);
        for _ in 0..passed {
            self.current = (self.current + 1) % BUCKETS;
            self.buckets[self.current] = 0.0;
        }
        let long = passed == BUCKETS as u64;
        self.since = if long { now } else { self.since.saturating_add(span * passed) };
        self.raise(value);
    }

    /// Takes in a value without letting time pass, so that no value is forgotten.
    pub(crate) fn raise(&mut self, value: f64) {
        let bucket = &mut self.buckets[self.current];
        *bucket = bucket.max(value);
    }

    /// Replaces all values by `value`.
    pub(crate) fn reset(&mut self, now: Nanos, value: f64) {
        *self = Self { since: now, ..Self::default() };
        self.buckets[0] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn a_value_counts_for_its_window() {
        let mut max = WindowedMax::default();
        max.reset(MS * 1000, 7.0);
        for ms in 1000..1800 {
            max.update(MS * ms, MS * 800, 3.0);
            assert_eq!(max.get(), 7.0, "{ms}");
        }
        max.update(MS * 1800, MS * 800, 3.0);
        assert_eq!(max.get(), 3.0);
    }

    #[test]
    fn values_are_forgotten_only_by_later_updates() {
        let mut max = WindowedMax::default();
        max.reset(MS, 7.0);
        max.raise(2.0);
        assert_eq!(max.get(), 7.0);
        max.raise(9.0);
        assert_eq!(max.get(), 9.0);
        max.update(MS * 5000, MS * 800, 1.0);
        assert_eq!(max.get(), 1.0);
    }
}
