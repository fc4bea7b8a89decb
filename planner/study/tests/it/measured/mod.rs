//! Tests with all topologies, which take long.

use crate::unison::{assert_repeats, topologies};

#[test]
fn the_study_repeats() {
    assert_repeats(&topologies(), true);
}
