//! What `core` has no functions for. Additions and multiplications only, so that every machine gets
//! the same bits.

use core::f64::consts::PI;

/// Terms of the series that count within half a turn, to the last bit of an `f64`.
const TERMS: u32 = 12;

/// The sine of `turns` full turns.
pub(crate) fn sin_turns(turns: f64) -> f64 {
    // The nearest whole turn away, then mirrored at a quarter: within a quarter of a turn.
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

/// The cosine of `turns` full turns.
pub(crate) fn cos_turns(turns: f64) -> f64 {
    sin_turns(turns + 0.25)
}

/// The square root by Newton's method; zero for what has none.
pub(crate) fn sqrt(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return 0.0;
    }
    // Halving the exponent begins within a factor of the root; each step doubles the digits.
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
        fn as_the_standard_library_has_them(turns in -10.0f64..10.0, x in 0.0f64..1e18) {
            let angle = 2.0 * PI * turns;
            prop_assert!((sin_turns(turns) - angle.sin()).abs() < 1e-13);
            prop_assert!((cos_turns(turns) - angle.cos()).abs() < 1e-13);
            prop_assert!((sqrt(x) - x.sqrt()).abs() <= 1e-14 * x.sqrt());
        }
    }

    #[test]
    fn what_has_no_root() {
        assert_eq!((sqrt(0.0), sqrt(-1.0), sqrt(f64::NAN)), (0.0, 0.0, 0.0));
        assert_eq!(sqrt(1e-300), 1e-150);
    }
}
