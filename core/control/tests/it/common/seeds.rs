//! The seeds of runs: few of them in the gate, and all of them where time does not matter.

use std::ops::RangeInclusive;

/// The seeds of a test's runs.
pub(crate) type Seeds = RangeInclusive<u64>;

/// Makes two tests of each function over seeds: one with the first seed, and one below `measured`
/// with the seeds 1 to `$last`.
macro_rules! tests_over_seeds {
    ($($name:ident: $last:literal;)*) => {
        mod first_seed {
            $(#[test]
            fn $name() {
                super::$name(1..=1);
            })*
        }

        mod measured {
            $(#[test]
            fn $name() {
                super::$name(1..=$last);
            })*
        }
    };
}
pub(crate) use tests_over_seeds;
