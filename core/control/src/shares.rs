//! What the bundles towards one site receive, which their receivebox knows.
//!
//! No signal of the path tells a bundle beside which another bundle lowers its rate from a bundle
//! beside other people's traffic that lowers its rate. So the receivebox says in its feedback what
//! its other bundles receive, and the guards of the bundles do not test against each other.
//!
//! A sendbox knows the same of its bundles towards other sites, since their feedback says it.

use alloc::vec;
use alloc::vec::Vec;

use forebay_units::{Bytes, Nanos, Rate};

/// What bundles other than one's own receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Their bytes so far. Only differences are meaningful.
    pub bytes: Bytes,
    /// The fair share: the mean rate of the large bundles, one's own among them. Zero means that
    /// there are no others.
    pub fair: Rate,
}

impl Others {
    /// Returns these bundles and `more` of them, of which none is among these.
    ///
    /// The fair share is the larger one: a bundle that has less than its share of either bottleneck
    /// tests as if it were alone.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self { bytes: self.bytes + more.bytes, fair: self.fair.max(more.fair) }
    }
}

/// Rates are measured over this long.
const PERIOD: Nanos = Nanos::from_millis(250);
/// The weight of the newest period in a bundle's rate.
const WEIGHT: f64 = 0.5;
/// Bundles with at least this share of the largest one's rate count for the fair share. A smaller
/// one has less to send, or its guard shall give it more.
const LARGE: f64 = 0.5;

/// The state of one bundle.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Whether there is such a bundle.
    present: bool,
    bytes: Bytes,
    /// `bytes` at the end of the last period.
    before: Bytes,
    /// In bytes per second.
    rate: f64,
}

/// The bundles of a receivebox, or of a sendbox.
#[derive(Debug)]
pub struct Shares {
    bundles: Vec<Share>,
    /// The number of bundles that are present.
    present: usize,
    total: Bytes,
    fair: Rate,
    since: Nanos,
}

impl Shares {
    /// Creates the state of this many bundles, which have received nothing.
    pub fn new(bundles: usize) -> Self {
        let bundles = vec![Share { present: true, ..Share::default() }; bundles];
        let present = bundles.len();
        Self { bundles, present, total: Bytes::ZERO, fair: Rate::ZERO, since: Nanos::ZERO }
    }

    /// Adds a bundle, which has received nothing.
    pub fn add(&mut self) {
        self.begin(self.bundles.len());
    }

    /// Begins bundle number `bundle`, which has received nothing. Another bundle may have had the
    /// number.
    pub fn begin(&mut self, bundle: usize) {
        if self.bundles.len() <= bundle {
            self.bundles.resize(bundle + 1, Share::default());
        }
        self.end(bundle);
        self.bundles[bundle].present = true;
        self.present += 1;
    }

    /// Ends bundle number `bundle`. What it has received stays in the total of all.
    pub fn end(&mut self, bundle: usize) {
        if let Some(share) = self.bundles.get_mut(bundle) {
            self.present -= usize::from(share.present);
            *share = Share::default();
        }
    }

    /// Records that bundle number `bundle` has received `bytes` so far. A number that has no bundle
    /// is ignored.
    pub fn on_total(&mut self, now: Nanos, bundle: usize, bytes: Bytes) {
        let Some(share) = self.bundles.get_mut(bundle).filter(|share| share.present) else {
            return;
        };
        self.total += bytes.saturating_sub(share.bytes);
        share.bytes = bytes;
        let passed = now.saturating_sub(self.since);
        if passed >= PERIOD {
            self.since = now;
            self.measure(passed);
        }
    }

    /// Returns what the bundles other than number `bundle` have received.
    pub fn others(&self, bundle: usize) -> Others {
        self.beside(&[bundle])
    }

    /// Returns what the bundles other than these, each of which is given once, have received.
    pub fn beside(&self, bundles: &[usize]) -> Others {
        let these = || bundles.iter().filter_map(|b| self.bundles.get(*b)).filter(|s| s.present);
        let own = these().fold(Bytes::ZERO, |sum, share| sum + share.bytes);
        let alone = these().count() == self.present;
        let fair = if alone { Rate::ZERO } else { self.fair };
        Others { bytes: self.total.saturating_sub(own), fair }
    }

    /// Ends a period that took this long.
    fn measure(&mut self, passed: Nanos) {
        for share in &mut self.bundles {
            let rate = (share.bytes.saturating_sub(share.before)).as_f64() / passed.as_secs_f64();
            share.before = share.bytes;
            share.rate += (rate - share.rate) * WEIGHT;
        }
        let largest = self.bundles.iter().map(|share| share.rate).fold(0.0, f64::max);
        let large = self.bundles.iter().map(|share| share.rate);
        let large = large.filter(|rate| *rate > 0.0 && *rate >= LARGE * largest);
        let (sum, count) = large.fold((0.0, 0_u32), |(sum, n), rate| (sum + rate, n + 1));
        self.fair = Rate::from_bps_f64(8.0 * sum / f64::from(count.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// Lets bundles receive at these rates, in Mbit/s, for two seconds.
    fn received<const N: usize>(rates: [u64; N]) -> Shares {
        let mut shares = Shares::new(N);
        for ms in 1..=2_000 {
            for (n, rate) in rates.iter().enumerate() {
                shares.on_total(MS * ms, n, Bytes(rate * 125 * ms));
            }
        }
        shares
    }

    #[test]
    fn the_fair_rate_is_that_of_the_large_bundles() {
        for (rates, fair) in [([40, 40, 2], 40.0), ([60, 31, 3], 45.5), ([60, 29, 3], 60.0)] {
            let got = received(rates).others(0).fair.as_mbps_f64();
            // The first period has no beginning, so that rates are only nearly reached.
            assert!((got / fair - 1.0).abs() < 0.02, "{rates:?}: {got}");
        }
    }

    #[test]
    fn others_are_all_but_oneself() {
        let shares = received([8, 16, 24]);
        assert_eq!(shares.others(0).bytes, Bytes(40 * 125 * 2_000));
        assert_eq!(shares.others(2).bytes, Bytes(24 * 125 * 2_000));
    }

    #[test]
    fn the_others_of_several_bundles_are_beside_all_of_them() {
        let mut shares = received([8, 16, 24]);
        assert_eq!(shares.beside(&[0, 2]).bytes, Bytes(16 * 125 * 2_000));
        assert!(shares.beside(&[0, 2]).fair > Rate::ZERO);
        assert_eq!(shares.beside(&[0, 1, 2]).fair, Rate::ZERO, "there are no others");
        shares.end(1);
        assert_eq!(shares.beside(&[0, 2]).fair, Rate::ZERO, "the only other has ended");
        shares.begin(1);
        assert!(shares.beside(&[0, 2]).fair > Rate::ZERO);
    }

    #[test]
    fn the_others_of_two_places_add_up() {
        let here = Others { bytes: Bytes(7), fair: Rate::from_mbps(3) };
        let there = Others { bytes: Bytes(5), fair: Rate::from_mbps(4) };
        assert_eq!(here.and(there), Others { bytes: Bytes(12), fair: Rate::from_mbps(4) });
        assert_eq!(there.and(Others::default()), there);
    }

    #[test]
    fn a_bundle_alone_has_no_fair_share_and_one_that_does_not_exist_changes_nothing() {
        let mut shares = received([8]);
        assert_eq!(shares.others(0), Others::default());
        shares.on_total(MS * 3_000, 7, Bytes(1 << 40));
        assert_eq!(shares.others(0), Others::default());
    }

    #[test]
    fn counters_that_begin_anew_do_not_add_or_take_bytes() {
        let mut shares = received([8, 16]);
        let before = shares.others(0).bytes;
        shares.on_total(MS * 2_001, 1, Bytes(10));
        shares.on_total(MS * 2_002, 1, Bytes(1_510));
        assert_eq!(shares.others(0).bytes.saturating_sub(before), Bytes(1_500));
    }
}
