//! Tests the verdict of `forebay l4s check` on the delays of queues.

use forebay_test_support::has_root;

use crate::support::link::{Hosts, l4s_check, l4s_faults};

#[test]
fn a_check_of_l4s_tells_dualpi2_from_a_queue_that_drops() {
    if !has_root() {
        return;
    }
    for version in [0, 1] {
        let hosts = Hosts::new("l4s");
        let link = hosts.link("rate = \"20 Mbit/s\"\n");
        let (_, report) = l4s_check(&hosts, version);
        let found = l4s_faults(&report);
        for wrong in ["unreachable", "ect1_rewritten", "ce_erased", "shared_queue", "unmarked"] {
            assert!(!found.contains(&wrong), "{report:#}");
        }
        assert!(report["loads"][2]["l4s"]["marked"].as_f64().unwrap() > 0.5, "{report:#}");
        drop(link);

        let _link = hosts.link("rate = \"20 Mbit/s\"\npolicy = \"fifo\"\n");
        let (status, report) = l4s_check(&hosts, version);
        let found = l4s_faults(&report);
        assert!(found.contains(&"shared_queue") && found.contains(&"unmarked"), "{report:#}");
        assert_eq!(status, Some(1));
    }
}
