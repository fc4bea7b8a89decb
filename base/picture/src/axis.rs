//! Axes and their ticks.

/// Returns ticks at round distances (1, 2 or 5 times a power of ten) from zero to the first that is
/// not below `max`, in at most about `parts` parts. The last tick is the end of the axis.
pub fn linear_ticks(max: f64, parts: u32) -> Vec<f64> {
    let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
    let least = max / f64::from(parts.max(1));
    let power = 10f64.powf(least.log10().floor());
    // The factor of ten ends the search whatever the logarithm was rounded to.
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= least * (1.0 - 1e-9));
    let step = factor.unwrap_or(10.0) * power;
    let count = (max / step * (1.0 - 1e-9)).ceil() as u32;
    (0..=count).map(|i| f64::from(i) * step).collect()
}

/// A logarithmic axis that starts at 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    /// The labelled values in ascending order; the first is 1.
    pub ticks: Vec<f64>,
    /// The end of the axis.
    pub max: f64,
}

impl LogAxis {
    /// Returns an axis to the first of 2, 5, 10, 20, 50, ... that is not below `max`.
    ///
    /// The ticks are those numbers, or powers of ten only if there would be too many.
    pub fn up_to(max: f64) -> Self {
        let steps = (0..18).flat_map(|power| [1.0, 2.0, 5.0].map(|f| f * 10f64.powi(power)));
        let mut ticks = Vec::new();
        for step in steps {
            ticks.push(step);
            if ticks.len() > 1 && step >= max {
                break;
            }
        }
        let end = ticks.last().copied().unwrap_or(1.0);
        if ticks.len() > 8 {
            ticks = ticks.into_iter().step_by(3).collect();
        }
        Self { ticks, max: end }
    }

    /// Returns the place of `value` on the axis, from 0 at 1 to 1 at the end; values below 1 are at
    /// 0.
    pub fn position(&self, value: f64) -> f64 {
        (value.max(1.0).ln() / self.max.ln()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_match_examples() {
        assert_eq!(linear_ticks(152.0, 5), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(linear_ticks(60.0, 6), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(linear_ticks(0.0, 4), [0.0, 0.5, 1.0]);
        assert_eq!(linear_ticks(f64::NAN, 2), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn log_axes_match_examples() {
        assert_eq!(LogAxis::up_to(0.0).ticks, [1.0, 2.0]);
        let axis = LogAxis::up_to(79.4);
        assert_eq!(axis.ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!((axis.position(0.5), axis.position(10.0), axis.position(1e9)), (0.0, 0.5, 1.0));
        let axis = LogAxis::up_to(412.0);
        assert_eq!((axis.ticks, axis.max), (vec![1.0, 10.0, 100.0], 500.0));
    }

    proptest! {
        #[test]
        fn ticks_cover_the_range_and_are_few(max in 1e-6..1e9f64, parts in 2..12u32) {
            let ticks = linear_ticks(max, parts);
            prop_assert!(*ticks.last().unwrap() >= max * (1.0 - 1e-6));
            prop_assert!(ticks[ticks.len() - 2] < max);
            prop_assert!(ticks.len() as u32 <= parts + 1);
        }
    }
}
