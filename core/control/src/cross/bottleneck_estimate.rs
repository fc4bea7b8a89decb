//! The bottleneck's rate beside cross traffic, measured by drain probes.
//!
//! The bundle alone never uses the full rate there, but during a probe the queue falls as fast as
//! the bundle leaves room at the bottleneck's rate.

use forebay_units::Rate;

/// Number of probes whose median is the estimate.
const PROBES: usize = 3;
/// The largest estimate from fewer probes, as a multiple of the highest rate of the bundle.
const MAX_AT_FIRST: f64 = 2.0;
/// The largest estimate from as many probes, as a multiple of the highest rate of the bundle.
const MAX: f64 = 4.0;
/// The largest estimate for the depth of a cut, as a multiple of the highest rate of the bundle.
///
/// Beside an elastic flow half of the probes give too low a rate, but a tenth give nearly twice the
/// rate. Then the cross traffic's share seems larger than it is, and the cut is so deep that any
/// queue drains (decision record 0015).
const MAX_FOR_CUT: f64 = 1.25;

/// The bottleneck's rate as measured by the last drain probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BottleneckEstimate {
    last: [Rate; PROBES],
    count: usize,
}

impl BottleneckEstimate {
    /// Adds the result of a probe.
    pub(super) fn push(&mut self, rate: Rate) {
        self.last[self.count % PROBES] = rate;
        self.count += 1;
    }

    /// Returns the bottleneck's rate, where `highest` is the highest rate at which it served the
    /// bundle.
    pub(super) fn rate(&self, highest: Rate) -> Rate {
        let count = self.count.min(PROBES);
        let mut sorted = self.last;
        sorted[..count].sort_unstable();
        let most = if count < PROBES { MAX_AT_FIRST } else { MAX };
        sorted[..count].get(count / 2).map_or(highest, |&r| r.clamp(highest, highest.scaled(most)))
    }

    /// Returns the bottleneck's rate that the depth of a cut is based on.
    pub(super) fn rate_for_cut(&self, highest: Rate) -> Rate {
        self.rate(highest).min(highest.scaled(MAX_FOR_CUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_the_median_of_three_within_bounds() {
        let mbps = Rate::from_mbps;
        let mut rates = BottleneckEstimate::default();
        let mut after = |rate| {
            rates.push(mbps(rate));
            rates.rate(mbps(40))
        };
        assert_eq!(BottleneckEstimate::default().rate(mbps(40)), mbps(40));
        assert_eq!(after(60), mbps(60));
        assert_eq!(after(100), mbps(80), "at most twice before the third");
        assert_eq!(after(90), mbps(90));
        assert_eq!(after(900), mbps(100), "60 is gone, and the median ignores one outlier");
        assert_eq!(after(900), mbps(160));
        assert_eq!(after(20), mbps(160));
        assert_eq!(after(20), mbps(40), "at least the rate at which it served the bundle");
        assert_eq!(rates.rate_for_cut(mbps(40)), mbps(40));
        rates.push(mbps(900));
        rates.push(mbps(900));
        assert_eq!(rates.rate_for_cut(mbps(40)), mbps(50));
    }
}
