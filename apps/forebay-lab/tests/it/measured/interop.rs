//! Tests the delay and the rate of `forebay lab interop`.

use std::time::Duration;

use forebay_test_support::has_root;

use crate::support::interop::{Hosts, SERVER, download};

#[test]
fn the_delay_and_the_rate_hold_in_both_ip_versions_with_every_kind_of_queue() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("iop");
    for policy in ["fifo", "fq_codel", "dualpi2"] {
        let scenario = "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=100";
        let network = hosts.network(scenario, &["--policy", policy]);
        for server in SERVER {
            // A handshake, a round trip, and the time of the data at 10 Mbit/s.
            let took = download(&hosts, server, 500_000);
            assert!(took > Duration::from_millis(2 * 30 + 400), "{policy}: {took:?}");
            assert!(took < Duration::from_secs(2), "{policy}: far below the rate: {took:?}");
        }
        network.end(&hosts);
    }
}
