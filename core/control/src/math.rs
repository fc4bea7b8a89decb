//! Functions that `core` lacks. They use additions and multiplications only, so that the results
//! are the same bits on every machine.

use core::f64::consts::PI;

/// Number of terms of the series that matter within half a turn, to the last bit of an `f64`.
const TERMS: u32 = 12;

/// Returns the sine of an angle in full turns.
pub(crate) fn sin_turns(turns: f64) -> f64 {
    // Subtract the nearest whole turn and mirror at a quarter, which leaves at most a quarter turn.
    let whole = (turns + if turns < 0.0 { -0.5 } else { 0.5 }) as i64 as f64;
    let rest = turns - whole;
    let rest = if rest > 0.25 {
        0.5 - rest
    } else if rest < -0.25 {
        -0.5 - rest
    } else {
        rest
    };
    let x = 2.0 * PI * rest;
    let (mut term, mut sum) = (x, x);
    for n in 1..TERMS {
        let n = f64::from(2 * n);
        term *= -x * x / (n * (n + 1.0));
        sum += term;
    }
    sum
}

/// Returns the cosine of an angle in full turns.
pub(crate) fn cos_turns(turns: f64) -> f64 {
    sin_turns(turns + 0.25)
}

/// Returns the square root by Newton's method, and zero where there is none.
pub(crate) fn sqrt(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return 0.0;
    }
    // Halving the exponent starts within a factor of the root; each step doubles the digits.
    let mut root = f64::from_bits((x.to_bits() >> 1) + (1023 << 51));
    for _ in 0..5 {
        root = 0.5 * (root + x / root);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_match_the_standard_library(turns in -10.0f64..10.0, x in 0.0f64..1e18) {
            let angle = 2.0 * PI * turns;
            prop_assert!((sin_turns(turns) - angle.sin()).abs() < 1e-13);
            prop_assert!((cos_turns(turns) - angle.cos()).abs() < 1e-13);
            prop_assert!((sqrt(x) - x.sqrt()).abs() <= 1e-14 * x.sqrt());
        }
    }

    #[test]
    fn numbers_without_a_root_give_zero() {
        assert_eq!((sqrt(0.0), sqrt(-1.0), sqrt(f64::NAN)), (0.0, 0.0, 0.0));
        assert_eq!(sqrt(1e-300), 1e-150);
    }
}
