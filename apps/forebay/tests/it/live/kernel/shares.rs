//! Tests the shares of peers, bundles and classes by their order. `measured::shares` has them
//! exactly.

use forebay_test_support::has_root;

use crate::support::weights::Exactness;
use crate::support::{classes, weights};

#[test]
fn peers_share_a_common_limit_by_weight_over_the_kernels_queues() {
    if has_root() {
        weights::share_over_kernel_queues(Exactness::Order);
    }
}

#[test]
fn bundles_share_a_common_limit_by_weight_in_user_space() {
    if has_root() {
        weights::share_in_user_space(Exactness::Order);
    }
}

#[test]
fn classes_share_by_weight_in_user_space() {
    if has_root() {
        classes::share_in_user_space(Exactness::Order);
    }
}

#[test]
fn classes_share_by_weight_over_the_kernels_queues() {
    if has_root() {
        classes::share_over_kernel_queues(Exactness::Order);
    }
}
