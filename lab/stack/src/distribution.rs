//! Percentiles and fairness of samples.

use serde::{Deserialize, Serialize};

/// Percentiles of a sample, by nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of samples.
    pub count: usize,
    /// The mean of the samples.
    pub mean: f64,
    /// The 1st percentile.
    pub p1: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median, the 50th percentile.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Jain's index of fairness (Jain, Chiu and Hawe 1984, DEC TR-301): 1 if all are equal.
    pub jain: f64,
}

impl Distribution {
    /// The distribution of `samples`, which are sorted in place. Values that are not finite are
    /// left out.
    pub fn of(samples: &mut Vec<f64>) -> Self {
        samples.retain(|v| v.is_finite());
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        if count == 0 {
            return Self::default();
        }
        let sum: f64 = samples.iter().sum();
        let squares: f64 = samples.iter().map(|v| v * v).sum();
        let jain = if squares > 0.0 { sum * sum / (count as f64 * squares) } else { 1.0 };
        let at = |p| percentile(samples, p);
        Self {
            count,
            mean: sum / count as f64,
            p1: at(1.0),
            p10: at(10.0),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            jain,
        }
    }

    /// How many times as large the 90th percentile is as the 10th. `None` if the 10th is zero.
    pub fn spread(&self) -> Option<f64> {
        (self.p10 > 0.0).then(|| self.p90 / self.p10)
    }
}

/// The nearest-rank percentile of ascending samples, of which there is at least one.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The points of a cumulative distribution that a picture needs: at most `n` values with the share
/// of samples up to each. `sorted` is in ascending order.
pub fn cumulative(sorted: &[f64], n: usize) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let steps = n.clamp(1, count.max(1));
    (1..=steps)
        .filter_map(|step| {
            let rank = (step * count).div_ceil(steps);
            let value = sorted.get(rank.checked_sub(1)?)?;
            Some((*value, rank as f64 / count as f64))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let mut hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let d = Distribution::of(&mut hundred);
        assert_eq!((d.count, d.mean), (100, 50.5));
        assert_eq!((d.p1, d.p10, d.p50, d.p90, d.p99), (1.0, 10.0, 50.0, 90.0, 99.0));
        assert_eq!(d.spread(), Some(9.0));
        let d = Distribution::of(&mut vec![3.0, 1.0, f64::NAN]);
        assert_eq!((d.count, d.p1, d.p50, d.p90), (2, 1.0, 1.0, 3.0));
    }

    #[test]
    fn fairness_is_jain_s() {
        // One flow of four has everything: 1/4. Equal shares: 1. One and three: 16 / (2 * 10).
        let jain = |v: &[f64]| Distribution::of(&mut v.to_vec()).jain;
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[2.0, 2.0]), 1.0);
        assert_eq!(jain(&[1.0, 3.0]), 0.8);
    }

    #[test]
    fn no_samples_and_zeros_have_no_spread() {
        assert_eq!(Distribution::of(&mut Vec::new()), Distribution::default());
        let zeros = Distribution::of(&mut vec![0.0, 0.0]);
        assert_eq!((zeros.spread(), zeros.jain), (None, 1.0));
    }

    proptest! {
        #[test]
        fn a_cumulative_distribution_ends_at_all(
            mut samples in proptest::collection::vec(0.0..1e6f64, 1..300), n in 1..50usize
        ) {
            samples.sort_by(f64::total_cmp);
            let points = cumulative(&samples, n);
            prop_assert!(points.len() <= n && points.len() <= samples.len());
            prop_assert_eq!(points.last(), Some(&(*samples.last().unwrap(), 1.0)));
            prop_assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
            for (value, share) in points {
                let below = samples.iter().filter(|v| **v <= value).count();
                prop_assert!(below as f64 / samples.len() as f64 >= share - 1e-9);
            }
        }
    }
}
