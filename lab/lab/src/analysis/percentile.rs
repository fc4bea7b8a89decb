/// Values in ascending order, for exact percentiles.
///
/// A run has at most a few million values, so all are kept and sorted once. There is no sketch and
/// no interpolation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// The percentile by nearest rank: the smallest value that at least `percent` % of all values
    /// do not exceed. It is the minimum for 0, the maximum for 100 and more, and `None` without
    /// values.
    ///
    /// The result is always one of the values. The rank is computed in integers, since 0.07 x 100
    /// is more than 7 in floating point.
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        let rank = (self.0.len() * usize::from(percent.min(100))).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied()
    }

    /// The arithmetic mean, `None` if there are no values.
    pub fn mean(&self) -> Option<f64> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values, in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The share of values whose magnitude is at most `limit`, 0 to 1; `None` if there are no
    /// values.
    pub fn share_within(&self, limit: f64) -> Option<f64> {
        if self.0.is_empty() {
            return None;
        }
        let within = self.0.iter().filter(|v| v.abs() <= limit).count();
        Some(within as f64 / self.0.len() as f64)
    }

    /// The magnitudes of the values.
    pub fn magnitudes(&self) -> Self {
        self.0.iter().map(|v| v.abs()).collect()
    }

    /// Merges the values of all `parts`.
    pub fn pooled<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        parts.into_iter().flat_map(|part| part.0.iter().copied()).collect()
    }
}

impl FromIterator<f64> for Sorted {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }
}

/// Rounds `value` to `decimals` decimals, so that files contain no digits without meaning.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(values: &[f64]) -> Sorted {
        values.iter().copied().collect()
    }

    #[test]
    fn nearest_rank_by_hand() {
        // Ranks ceil(p n / 100) of 15 20 35 40 50: p5 -> 1, p30 -> 2, p40 -> 2, p50 -> 3, p100 ->
        // 5.
        let s = sorted(&[50.0, 15.0, 40.0, 20.0, 35.0]);
        let of = |p| s.percentile(p).unwrap();
        assert_eq!([of(5), of(30), of(40), of(50), of(100)], [15.0, 20.0, 20.0, 35.0, 50.0]);
        assert_eq!((of(0), of(255)), (15.0, 50.0));
        assert_eq!(s.mean(), Some(32.0));
    }

    #[test]
    fn ranks_are_exact_where_floats_are_not() {
        // 7 % of 100 values is the 7th; in floating point 0.07 x 100 rounds up to the 8th.
        let s: Sorted = (1..=100).map(f64::from).collect();
        for p in 1..=100 {
            assert_eq!(s.percentile(p), Some(f64::from(p)));
        }
    }

    #[test]
    fn an_empty_set_has_no_percentile() {
        let none = Sorted::default();
        assert_eq!((none.percentile(50), none.mean(), none.share_within(1.0)), (None, None, None));
    }

    #[test]
    fn shares_count_both_signs_and_the_limit() {
        let s = sorted(&[-3.0, -1.2, 0.0, 1.2]);
        assert_eq!(s.share_within(1.2), Some(0.75));
        assert_eq!(s.magnitudes(), sorted(&[0.0, 1.2, 1.2, 3.0]));
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-1e9..1e9f64, 1..300)
    }

    proptest! {
        /// Against the definition, word by word.
        #[test]
        fn agrees_with_the_definition(values in values(), p in 0..=100u8) {
            let naive = values.iter().copied().filter(|v| {
                let not_above = values.iter().filter(|w| *w <= v).count();
                not_above * 100 >= usize::from(p) * values.len()
            }).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(sorted(&values).percentile(p), Some(naive));
        }

        #[test]
        fn pooling_is_sorting_all(a in values(), b in values()) {
            let all = [a.clone(), b.clone()].concat();
            prop_assert_eq!(Sorted::pooled([&sorted(&a), &sorted(&b)]), sorted(&all));
        }
    }
}
