//! Tests the rate of a bundle beside a stranger.

use forebay_test_support::has_root;

use crate::live::kernel::stranger::rates_beside_a_stranger;

#[test]
fn a_stranger_with_forged_sources_changes_no_rate() {
    if !has_root() {
        return;
    }
    let rates = rates_beside_a_stranger(50);
    assert!((12.0..30.0).contains(&rates[rates.len() / 2]), "{rates:?}");
}
