use alloc::boxed::Box;
use alloc::vec;

use crate::math::{cos_turns, sin_turns};

/// The share of the state that each step discards, so that rounding errors decay instead of adding
/// up. Over a window of 500 values this is half a thousandth.
const DAMPING: f64 = 1e-6;

/// Some bins of the discrete Fourier transform of the last `window` values, updated with each value
/// by the sliding DFT (Jacobsen and Lyons 2003). This takes a complex product per bin instead of a
/// whole transform.
///
/// Bin k is the sum over the values, the newest first, of `value(i) * exp(2 pi j k i / window)`.
#[derive(Debug)]
pub(super) struct SlidingDft {
    values: Box<[f64]>,
    /// The index of the oldest value.
    oldest: usize,
    bins: Box<[Bin]>,
    first: usize,
    /// What is left of a value when it leaves the window, because of the damping.
    faded: f64,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    turn: Complex,
    sum: Complex,
}

/// A complex number, in Cartesian form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    /// Returns `self * factor - other`.
    pub(super) fn scaled_less(self, factor: f64, other: Self) -> Self {
        Self { re: self.re * factor - other.re, im: self.im * factor - other.im }
    }

    /// Returns the real part of `self * conj(other)`.
    pub(super) fn dot(self, other: Self) -> f64 {
        self.re * other.re + self.im * other.im
    }

    /// Returns the square of the magnitude.
    pub(super) fn power(self) -> f64 {
        self.dot(self)
    }
}

impl SlidingDft {
    /// Creates the bins `first..=last` over `window` values, all of them zero.
    pub(super) fn new(window: usize, first: usize, last: usize) -> Self {
        let keep = 1.0 - DAMPING;
        let bin = |k: usize| {
            let turns = k as f64 / window as f64;
            let turn = Complex { re: keep * cos_turns(turns), im: keep * sin_turns(turns) };
            Bin { turn, sum: Complex::default() }
        };
        Self {
            values: vec![0.0; window].into_boxed_slice(),
            oldest: 0,
            bins: (first..=last).map(bin).collect(),
            first,
            faded: (0..window).fold(1.0, |faded, _| faded * keep),
        }
    }

    /// Adds a value and removes the oldest.
    pub(super) fn push(&mut self, value: f64) {
        let oldest = core::mem::replace(&mut self.values[self.oldest], value);
        self.oldest = (self.oldest + 1) % self.values.len();
        let step = value - oldest * self.faded;
        for Bin { turn, sum } in &mut self.bins {
            *sum = Complex {
                re: sum.re * turn.re - sum.im * turn.im + step,
                im: sum.re * turn.im + sum.im * turn.re,
            };
        }
    }

    /// Returns bin `k` of the values under a Hann window, which keeps strong low frequencies out.
    /// Each half of the window's cosine is a neighbouring bin.
    pub(super) fn hann(&self, k: usize) -> Complex {
        let Complex { re, im } = self.bin(k);
        let (below, above) = (self.bin(k - 1), self.bin(k + 1));
        Complex {
            re: 0.5 * re - 0.25 * (below.re + above.re),
            im: 0.5 * im - 0.25 * (below.im + above.im),
        }
    }

    /// Sets all values to zero.
    pub(super) fn clear(&mut self) {
        self.values.fill(0.0);
        self.bins.iter_mut().for_each(|bin| bin.sum = Complex::default());
    }

    fn bin(&self, k: usize) -> Complex {
        self.bins[k - self.first].sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::f64::consts::PI;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Computes the bin from its definition, over the last `window` values.
    fn naive(values: &[f64], window: usize, k: usize, weight: impl Fn(f64) -> f64) -> Complex {
        let mut sum = Complex::default();
        for (i, value) in values.iter().rev().take(window).enumerate() {
            let place = i as f64 / window as f64;
            let angle = 2.0 * PI * k as f64 * place;
            sum.re += value * weight(place) * angle.cos();
            sum.im += value * weight(place) * angle.sin();
        }
        sum
    }

    fn close(a: Complex, b: Complex, by: f64) -> bool {
        a.scaled_less(1.0, b).power() < by * by
    }

    #[test]
    fn a_cosine_gives_the_bins_computed_by_hand() {
        // Five periods in a window of 100 give half of 100 in bin 5 and nothing beside it.
        let mut dft = SlidingDft::new(100, 1, 9);
        (0..300).for_each(|i| dft.push((2.0 * PI * 5.0 * f64::from(i) / 100.0).cos()));
        assert!((dft.bin(5).power() - 2500.0).abs() < 2.0, "{:?}", dft.bin(5));
        assert!([2, 3, 4, 6, 7].iter().all(|&k| dft.bin(k).power() < 1e-3));
        assert!(
            (dft.hann(5).power() - 625.0).abs() < 0.5,
            "half of the amplitude under the window"
        );
        dft.clear();
        assert_eq!(dft.bin(5), Complex::default());
    }

    proptest! {
        #[test]
        fn the_bins_match_their_definition(values in prop::collection::vec(-1e3f64..1e3, 1..400)) {
            let mut dft = SlidingDft::new(100, 10, 22);
            values.iter().for_each(|v| dft.push(*v));
            // The damping is 1e-6 of values up to 1e3, 100 of them 100 times.
            for k in 11..22 {
                prop_assert!(close(dft.bin(k), naive(&values, 100, k, |_| 1.0), 10.0));
                let hann = |place: f64| 0.5 - 0.5 * (2.0 * PI * place).cos();
                prop_assert!(close(dft.hann(k), naive(&values, 100, k, hann), 10.0));
            }
        }
    }

    #[test]
    fn rounding_errors_do_not_add_up() {
        let mut dft = SlidingDft::new(100, 10, 12);
        let mut state = 1_u64;
        let values: Vec<f64> = (0..2_000_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f64
            })
            .collect();
        values.iter().for_each(|v| dft.push(*v));
        let exact = naive(&values, 100, 11, |_| 1.0);
        assert!(close(dft.bin(11), exact, 1e-3 * crate::math::sqrt(exact.power())), "{exact:?}");
    }
}
