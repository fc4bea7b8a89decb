//! Maps of more cells, which take long.

use forebay_harm::Family;

use crate::map::assert_further_seeds;

#[test]
fn cells_that_look_worse_are_judged_by_further_seeds() {
    assert_further_seeds(&[Family::Thin, Family::RandomBursts, Family::Elastic], 2);
}
