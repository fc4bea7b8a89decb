//! Medians, quantiles and ranks.

/// The median; of an even number of values the mean of the middle two. Zero if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, middle) if n % 2 == 1 => sorted[middle],
        (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The values in ascending order.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The lowest value; infinity if there are none.
pub(super) fn lowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The highest value; negative infinity if there are none.
pub(super) fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The mean of the values; zero if there are none.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The ranks of the values from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let sorted = sorted(values);
    let rank = |v: &f64| {
        let below = sorted.partition_point(|s| s < v);
        let equal = sorted[below..].partition_point(|s| s <= v);
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Spearman's rank correlation, from -1 to 1; zero if a side has no spread.
pub(super) fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (a, b) = (ranks(&a), ranks(&b));
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(&b).map(|(x, y)| f(x - mean_a, y - mean_b)).sum()
    };
    let spread = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    if spread > 0.0 { sum(&|x, y| x * y) / spread } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_agree_with_a_calculation_by_hand() {
        assert_eq!([median(&[]), median(&[3.0, 1.0, 2.0]), median(&[1.0, 4.0])], [0.0, 2.0, 2.5]);
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
        assert!((spearman(&[(1.0, 9.0), (2.0, 7.0), (8.0, 1.0)]) + 1.0).abs() < 1e-12);
        // By the formula 1 - 6 sum d^2 / (n (n^2 - 1)): differences 1, 1, 0 and 0.
        let rho = spearman(&[(1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (4.0, 4.0)]);
        assert!((rho - 0.8).abs() < 1e-12);
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0)]), 0.0);
    }
}
