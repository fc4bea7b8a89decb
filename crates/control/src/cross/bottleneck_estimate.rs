//! The bottleneck's rate beside others: nobody sees it served at its full rate there, but a look makes
//! its queue fall as fast as the bundle leaves room.

use forebay_units::Rate;

/// It is the median of so many looks,
const PROBES: usize = 3;
/// no more than so many times the highest rate at which the bundle was served, before there are as
/// many and then.
const MOST: (f64, f64) = (2.0, 4.0);
/// And no more than so many times where it says how deep to cut. Beside an elastic flow half of the
/// looks told less than the rate, but a tenth nearly twice as much; then others seem to have more than
/// they do, and the cut is so deep that any queue goes (decision 15).
const MOST_TO_CUT: f64 = 1.25;

/// What the last looks told of the bottleneck's rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BottleneckEstimate {
    last: [Rate; PROBES],
    count: usize,
}

impl BottleneckEstimate {
    /// A look told this.
    pub(super) fn push(&mut self, rate: Rate) {
        self.last[self.count % PROBES] = rate;
        self.count += 1;
    }

    /// The bottleneck's rate, where the highest at which it served the bundle is `highest`.
    pub(super) fn rate(&self, highest: Rate) -> Rate {
        let count = self.count.min(PROBES);
        let mut sorted = self.last;
        sorted[..count].sort_unstable();
        let most = if count < PROBES { MOST.0 } else { MOST.1 };
        sorted[..count].get(count / 2).map_or(highest, |&r| r.clamp(highest, highest.scaled(most)))
    }

    /// What of it counts for how deep to cut.
    pub(super) fn rate_for_cut(&self, highest: Rate) -> Rate {
        self.rate(highest).min(highest.scaled(MOST_TO_CUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_three_within_bounds() {
        let mbps = Rate::from_mbps;
        let mut rates = BottleneckEstimate::default();
        let mut after = |rate| {
            rates.push(mbps(rate));
            rates.rate(mbps(40))
        };
        assert_eq!(BottleneckEstimate::default().rate(mbps(40)), mbps(40));
        assert_eq!(after(60), mbps(60));
        assert_eq!(after(100), mbps(80), "no more than twice before the third");
        assert_eq!(after(90), mbps(90));
        assert_eq!(after(900), mbps(100), "60 is gone, and one of three may be wrong");
        assert_eq!(after(900), mbps(160));
        assert_eq!(after(20), mbps(160));
        assert_eq!(after(20), mbps(40), "it served the bundle as fast as that");
        assert_eq!(rates.rate_for_cut(mbps(40)), mbps(40));
        rates.push(mbps(900));
        rates.push(mbps(900));
        assert_eq!(rates.rate_for_cut(mbps(40)), mbps(50));
    }
}
