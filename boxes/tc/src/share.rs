//! Shares in a rate.

use forebay_units::Rate;

/// The part of a bundle in the common limit, or of a class in the rate of its bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The weight, from 1 to 100, that divides what is left beyond guaranteed rates.
    pub weight: u32,
    /// The guaranteed rate.
    pub rate: Option<Rate>,
    /// The rate that is never exceeded. For a bundle, the caller's rate holds it.
    pub ceil: Option<Rate>,
}

impl Default for Share {
    fn default() -> Self {
        Self { weight: 1, rate: None, ceil: None }
    }
}

/// Returns the rate that each of `shares` has while all send all the time below their common
/// `limit`, in the order given: its guarantee and its part, by weight, of what guarantees leave, or
/// its ceiling, if that is less; the others divide what it leaves then.
pub fn parts(limit: Rate, shares: &[Share]) -> Vec<Rate> {
    let mut is_full = vec![false; shares.len()];
    loop {
        let owed = |n: usize| {
            let share = shares[n];
            (if is_full[n] { share.ceil } else { share.rate }).map_or(0, Rate::as_bps)
        };
        let all = (0..shares.len()).map(owed).fold(0, u64::saturating_add);
        let rest = limit.as_bps().saturating_sub(all);
        let open = |n: &usize| !is_full[*n];
        let weights: u32 = (0..shares.len()).filter(open).map(|n| shares[n].weight).sum();
        let part = |n: usize| f64::from(shares[n].weight) / f64::from(weights) * rest as f64;
        let left = |n: usize| if is_full[n] { 0 } else { part(n).round() as u64 };
        let rate = |n| owed(n).saturating_add(left(n));
        let rates: Vec<_> = (0..shares.len()).map(rate).map(Rate::from_bps).collect();
        let above = |n: &usize| open(n) && shares[*n].ceil.is_some_and(|ceil| rates[*n] > ceil);
        let full: Vec<_> = (0..shares.len()).filter(above).collect();
        if full.is_empty() {
            return rates;
        }
        full.into_iter().for_each(|n| is_full[n] = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_values_computed_by_hand() {
        let mbps = Rate::from_mbps;
        let some = |rate| Some(rate).filter(|&rate| rate > 0).map(mbps);
        let share = |weight, rate, ceil| Share { weight, rate: some(rate), ceil: some(ceil) };
        for (limit, shares, expected) in [
            (100, vec![share(1, 0, 0), share(4, 0, 0)], vec![20, 80]),
            // 60 are left: 20 and 40.
            (100, vec![share(1, 40, 0), share(2, 0, 0)], vec![60, 40]),
            // The second would have 50 and leaves 40, which the others divide.
            (100, vec![share(1, 0, 0), share(2, 0, 10), share(1, 0, 0)], vec![45, 10, 45]),
            // Nobody may take the rest.
            (100, vec![share(1, 0, 10), share(1, 20, 20)], vec![10, 20]),
            (100, vec![share(7, 100, 0), share(1, 0, 0)], vec![100, 0]),
            (100, vec![], vec![]),
        ] {
            let rates = parts(mbps(limit), &shares);
            assert_eq!(rates, expected.into_iter().map(mbps).collect::<Vec<_>>(), "{shares:?}");
        }
    }
}
