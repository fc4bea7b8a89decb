//! The bottleneck's rate beside others: nobody sees it served at its full rate there, but a look makes
//! its queue fall as fast as the bundle leaves room.

use forebay_units::Rate;

/// It is the median of so many looks,
const LOOKS: usize = 3;
/// and no more than so many times the highest rate at which the bundle was served. Half of the looks tell
/// less than the rate, a tenth nearly twice as much; and where it is taken for more than it is, so is what others
/// have, and looks cut so deep that any queue goes (decision 15).
const MOST: f64 = 1.25;

/// What the last looks told of the bottleneck's rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    last: [Rate; LOOKS],
    told: usize,
}

impl Rates {
    /// A look told this.
    pub(super) fn push(&mut self, rate: Rate) {
        self.last[self.told % LOOKS] = rate;
        self.told += 1;
    }

    /// The bottleneck's rate, where the highest at which it served the bundle is `highest`.
    pub(super) fn bottleneck(&self, highest: Rate) -> Rate {
        let told = self.told.min(LOOKS);
        let mut sorted = self.last;
        sorted[..told].sort_unstable();
        sorted[..told].get(told / 2).map_or(highest, |&r| r.clamp(highest, highest.scaled(MOST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_three_within_bounds() {
        let mbps = Rate::from_mbps;
        let mut rates = Rates::default();
        let mut after = |rate| {
            rates.push(mbps(rate));
            rates.bottleneck(mbps(40))
        };
        assert_eq!(Rates::default().bottleneck(mbps(40)), mbps(40));
        assert_eq!(after(44), mbps(44));
        assert_eq!(after(48), mbps(48));
        assert_eq!(after(46), mbps(46));
        assert_eq!(after(90), mbps(48), "44 is gone, and one of three may be wrong");
        assert_eq!(after(90), mbps(50), "no more than five quarters");
        assert_eq!(after(20), mbps(50));
        assert_eq!(after(20), mbps(40), "it served the bundle as fast as that");
    }
}
