//! Tests whose verdict depends on how busy the machine is, which run one at a time.
//!
//! The same comparisons are in `live`, where they accept that the program below the queues misses a
//! few packets. Here they accept none. They fail now and then on kernels that do not run the
//! program for every packet, as `MISSED_SHARE` says.

use forebay_test_support::has_root;

use crate::seen::Comparison;
use crate::{egress, tunnel};

#[test]
fn what_leaves_is_what_arrives_with_tso_on_and_off() {
    if has_root() {
        egress::compare_with_tso_on_and_off(Comparison::exact());
    }
}

#[test]
fn super_packets_that_stay_whole_are_seen_alike_at_both_ends() {
    if has_root() {
        egress::compare_whole_super_packets(Comparison::exact());
    }
}

#[test]
fn super_packets_of_more_than_64_kib_are_seen_as_their_segments() {
    if has_root() {
        egress::compare_super_packets_of_more_than_64_kib(Comparison::exact());
    }
}

#[test]
fn what_leaves_by_a_tunnel_is_what_arrives_from_it() {
    if has_root() {
        tunnel::compare(Comparison::exact());
    }
}
