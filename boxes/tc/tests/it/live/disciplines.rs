//! Each queueing discipline that a plan may have, made and read back.

use forebay_test_support::has_root;
use forebay_test_support::queues::made_and_found;

/// On most machines the kernel has few of them. The laboratory's guest runs the same, with more.
#[test]
fn every_discipline_that_the_kernel_has_is_made_and_adopted() {
    if has_root() {
        let has = made_and_found();
        assert!(has.contains(&"pfifo"), "{has:?}");
    }
}
