//! Tests `forebay link` between two hosts: forwarding, marks, counters, and what remains when it
//! crashes.

use std::fs;

use forebay_test_support::has_root;
use serde_json::Value;

use crate::support::link::{ECT1, EF, Hosts, NOT_ECT, l4s_check, l4s_faults};

#[test]
fn counters_cover_both_queues_directions_and_ip_versions() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("li");
    let mut link = hosts.link("rate = \"20 Mbit/s\"\noverhead = \"ethernet\"\n");
    for version in [0, 1] {
        hosts.transfer(version, 300_000);
    }
    // Each burst is a queue of 30 ms: all L4S packets but the first few wait longer than 1.2 ms.
    for version in [0, 1] {
        hosts.datagrams(version, 60, ECT1);
        hosts.datagrams(version, 20, NOT_ECT);
        // The L queue empties long before this ends.
        hosts.transfer(version, 100_000);
    }
    link.signal(libc::SIGTERM);

    let outward = hosts.total("outward");
    let [l, c] = ["low_latency", "classic"].map(|q| outward["dualpi2"][q].clone());
    let count = |value: &Value| value.as_u64().unwrap();
    for what in ["arrived", "presented"] {
        assert_eq!(count(&l[what]["ect1"]), 120, "{what}: {l}");
        assert_eq!(count(&l[what]["not_ect"]), 0, "{what}: {l}");
    }
    // If this machine stops the box for long enough, the queue is in overload.
    let [marked, dropped] = ["marked", "dropped"].map(|what| count(&l[what]["ect1"]));
    assert_eq!(count(&l["forwarded"]["ect1"]) + dropped, 120, "{l}");
    assert!(marked > 60, "{l}");
    let came = |name: &str| hosts.received(name);
    assert_eq!([came("InCEPkts"), came("InECT1Pkts")], [marked, 120 - dropped - marked], "{l}");
    // Handshakes, 800 000 bytes in segments, 40 datagrams, and address resolution.
    let classic = count(&c["arrived"]["not_ect"]);
    assert!(classic > 580, "{c}");
    let [presented, forwarded, dropped] =
        ["presented", "forwarded", "dropped"].map(|what| count(&c[what]["not_ect"]));
    assert_eq!(presented, forwarded + dropped + count(&outward["backlog_packets"]), "{outward}");
    // 1200 B of payload and 8 of UDP below IPv4 or IPv6, 38 of Ethernet.
    let each = count(&l["bytes"]) / count(&l["forwarded"]["ect1"]);
    assert!((1_266..=1_286).contains(&each), "{l}");
    let inward = hosts.total("inward");
    assert!(count(&inward["packets"]) > 50, "{inward}");
    assert_eq!(count(&inward["rate"]), 20_000_000);

    let counters = fs::read_to_string(hosts.dir.0.join("counters")).unwrap();
    let counters: Value = serde_json::from_str(&counters).unwrap();
    let [received, sent, drops, queued, lost] =
        ["received", "sent", "policy_drops", "queued", "lost"].map(|k| count(&counters[k]));
    assert_eq!((received, lost), (sent + drops + queued, 0), "{counters}");
    assert_eq!(count(&counters["marked"]), marked, "{counters}");
}

#[test]
fn one_direction_may_be_unshaped_and_any_policy_used() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("lp");
    let policy = "policy = { kind = \"strict\" }\n[[link.class]]\nname = \"l4s\"\nports = [9]\n\
                  policy = { kind = \"fifo\" }\n[[link.class]]\nname = \"rest\"\n";
    let mut link = hosts.link(&format!("outward = \"20 Mbit/s\"\n{policy}"));
    hosts.datagrams(0, 50, ECT1);
    hosts.transfer(1, 300_000);
    link.signal(libc::SIGTERM);
    assert!(hosts.total("outward")["dualpi2"].is_null());
    assert_eq!(hosts.received("InCEPkts"), 0);
    let text = fs::read_to_string(hosts.dir.0.join("statistics")).unwrap();
    assert!(!text.contains("inward"), "{text}");
}

/// Classifiers put a DSCP and a VLAN into the L queue, and keep an address and a port out of it
/// (RFC 9332 section 2.3).
#[test]
fn classifiers_choose_the_queue() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("lc");
    let mut link = hosts.link(
        "rate = \"100 Mbit/s\"\npolicy = { kind = \"dualpi2\", queue_protection = true }\n\
         [[link.classifier]]\nqueue = \"low_latency\"\ndscp = [46]\n\
         [[link.classifier]]\nqueue = \"low_latency\"\nvlans = [7]\n\
         [[link.classifier]]\nqueue = \"classic\"\nprefixes = [\"10.9.5.2/32\"]\nports = [9]\n",
    );
    hosts.datagrams(0, 20, ECT1);
    hosts.datagrams(0, 20, EF);
    hosts.datagrams(1, 20, ECT1);
    hosts.tagged(7, 20);
    hosts.tagged(8, 20);
    hosts.transfer(1, 100_000);
    link.signal(libc::SIGTERM);
    let outward = hosts.total("outward");
    let arrived =
        |queue: &str, ecn: &str| outward["dualpi2"][queue]["arrived"][ecn].as_u64().unwrap();
    assert_eq!(arrived("classic", "ect1"), 20, "by address and port: {outward}");
    assert_eq!(arrived("low_latency", "ect1"), 20, "by the ECN field: {outward}");
    assert_eq!(arrived("low_latency", "not_ect"), 40, "by DSCP and by VLAN: {outward}");
    assert_eq!(outward["dualpi2"]["low_latency"]["dropped"]["not_ect"], 0, "{outward}");
    assert!(arrived("classic", "not_ect") > 70, "the rest: {outward}");
}

#[test]
fn an_ended_link_forwards_and_its_successor_takes_over() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("lk");
    let mut link = hosts.link("rate = \"20 Mbit/s\"\n");
    hosts.transfer(0, 300_000);
    link.signal(libc::SIGKILL);
    for version in [0, 1] {
        hosts.transfer(version, 300_000);
    }
    let mut link = hosts.link("rate = \"20 Mbit/s\"\n");
    hosts.transfer(1, 300_000);
    link.signal(libc::SIGTERM);
    let packets = hosts.total("outward")["packets"].as_u64().unwrap();
    assert!(packets > 200, "the second saw its own {packets}");
    hosts.transfer(0, 300_000);
}

/// Tests that failed once beside other work of the machine.
mod measured {
    use super::*;

    /// `measured::link` has what the check says of delays.
    #[test]
    fn a_check_of_l4s_reports_what_the_path_does_to_marks() {
        if !has_root() {
            return;
        }
        for version in [0, 1] {
            let hosts = Hosts::new("l4s");
            let link = hosts.link("rate = \"20 Mbit/s\"\n");
            let (_, report) = l4s_check(&hosts, version);
            let found = l4s_faults(&report);
            for wrong in ["unreachable", "ect1_rewritten", "ce_erased", "unmarked"] {
                assert!(!found.contains(&wrong), "{report:#}");
            }
            drop(link);

            let _link = hosts.link("rate = \"20 Mbit/s\"\npolicy = \"fifo\"\n");
            let (status, report) = l4s_check(&hosts, version);
            let found = l4s_faults(&report);
            assert!(found.contains(&"unmarked"), "{report:#}");
            assert_eq!(status, Some(1));
        }
    }
}
