use forebay_units::Nanos;

/// The maximum over one to two windows of time, in two values. [`crate::windowed_max`] is exact to
/// an eighth of a window and keeps nine.
#[derive(Debug, Default)]
pub(crate) struct RecentMax<T> {
    since: Nanos,
    current: T,
    before: T,
}

impl<T: Copy + Default + Ord> RecentMax<T> {
    /// Takes in a value. Returns the maximum including it.
    pub(crate) fn update(&mut self, now: Nanos, value: T, window: Nanos) -> T {
        if now.saturating_sub(self.since) > window {
            *self = Self { since: now, current: T::default(), before: self.current };
        }
        self.current = self.current.max(value);
        self.get()
    }

    /// Keeps the window from ending before `now`, so that no value is forgotten.
    pub(crate) fn hold(&mut self, now: Nanos, window: Nanos) {
        self.since = self.since.max(now.saturating_sub(window));
    }

    /// Returns the maximum, or the default value before the first.
    pub(crate) fn get(&self) -> T {
        self.current.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Bytes;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn the_maximum_spans_one_to_two_windows() {
        let mut max = RecentMax::default();
        assert_eq!(max.update(MS, Bytes(9), MS * 50), Bytes(9));
        assert_eq!(max.update(MS * 60, Bytes(2), MS * 50), Bytes(9), "59 ms ago");
        assert_eq!(max.update(MS * 120, Bytes(1), MS * 50), Bytes(2), "119 ms ago");
    }

    #[test]
    fn a_held_value_is_not_forgotten() {
        let mut max = RecentMax::default();
        max.update(MS, Bytes(9), MS * 50);
        for ms in 2..1000 {
            max.hold(MS * ms, MS * 50);
            assert_eq!(max.update(MS * ms, Bytes(1), MS * 50), Bytes(9), "{ms}");
        }
    }
}
