use forebay_units::{Nanos, Rate};

use crate::recent_max::RecentMax;

/// A highest rate is kept for one to two of these: long enough for a lull of the cross traffic, and
/// short enough for a path that became slower.
const HALF: Nanos = Nanos::from_secs(20);

/// The highest rate at which the bottleneck was seen to serve the bundle lately: no more than its
/// own rate, and as much as that whenever nobody else used it.
#[derive(Debug, Default)]
pub(super) struct HighestRate(RecentMax<Rate>);

impl HighestRate {
    /// The bottleneck, busy, served the bundle at `rate`. While `held` nothing is forgotten: who
    /// shares a bottleneck does not see its rate.
    pub(super) fn on_rate(&mut self, now: Nanos, rate: Rate, held: bool) {
        if held {
            self.0.hold(now, HALF);
        }
        self.0.update(now, rate, HALF);
    }

    /// The highest; zero before the first.
    pub(super) fn get(&self) -> Rate {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_up_at_once_and_down_within_forty_seconds() {
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
