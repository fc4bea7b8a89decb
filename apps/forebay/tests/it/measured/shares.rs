//! Tests that peers, bundles and classes have their shares within 3 %.

use forebay_test_support::has_root;

use crate::support::weights::Exactness;
use crate::support::{classes, weights};

#[test]
fn five_peers_share_a_common_limit_by_weight_over_the_kernels_queues() {
    if has_root() {
        weights::share_over_kernel_queues(Exactness::Percent);
    }
}

#[test]
fn five_bundles_share_a_common_limit_by_weight_in_user_space() {
    if has_root() {
        weights::share_in_user_space(Exactness::Percent);
    }
}

#[test]
fn weighted_classes_have_their_shares_in_user_space() {
    if has_root() {
        classes::share_in_user_space(Exactness::Percent);
    }
}

#[test]
fn weighted_classes_have_their_shares_over_the_kernels_queues() {
    if has_root() {
        classes::share_over_kernel_queues(Exactness::Percent);
    }
}
