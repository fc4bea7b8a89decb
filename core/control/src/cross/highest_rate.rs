use forebay_units::{Nanos, Rate};

use crate::recent_max::RecentMax;

/// A rate is kept for one to two of these periods: long enough to include a lull of the cross
/// traffic, and short enough to notice that the path became slower.
const PERIOD: Nanos = Nanos::from_secs(20);

/// The highest recent rate at which the bottleneck served the bundle. It is at most the
/// bottleneck's rate, and equal to it whenever there was no cross traffic.
#[derive(Debug, Default)]
pub(super) struct HighestRate(RecentMax<Rate>);

impl HighestRate {
    /// Records that the busy bottleneck served the bundle at `rate`. While `held`, no rate expires:
    /// a bundle that shares the bottleneck does not see the full rate.
    pub(super) fn on_rate(&mut self, now: Nanos, rate: Rate, held: bool) {
        if held {
            self.0.hold(now, PERIOD);
        }
        self.0.update(now, rate, PERIOD);
    }

    /// Returns the highest rate, zero before the first.
    pub(super) fn get(&self) -> Rate {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_at_once_and_falls_within_forty_seconds() {
        let mut highest = HighestRate::default();
        let (second, mbps) = (Nanos::from_secs(1), Rate::from_mbps);
        (1..=30).for_each(|s| highest.on_rate(second * s, mbps(96), false));
        highest.on_rate(second * 31, mbps(100), false);
        assert_eq!(highest.get(), mbps(100));
        (32..=50).for_each(|s| highest.on_rate(second * s, mbps(48), false));
        assert_eq!(highest.get(), mbps(100));
        (51..=72).for_each(|s| highest.on_rate(second * s, mbps(48), false));
        assert_eq!(highest.get(), mbps(48));
        (73..=200).for_each(|s| highest.on_rate(second * s, mbps(9), true));
        assert_eq!(highest.get(), mbps(48));
        (201..=241).for_each(|s| highest.on_rate(second * s, mbps(9), false));
        assert_eq!(highest.get(), mbps(9));
    }
}
