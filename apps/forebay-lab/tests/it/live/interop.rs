//! Tests `forebay lab interop` between a client and a server.

use forebay_test_support::has_root;
use forebay_test_support::process::until;

use crate::support::interop::{CLIENT, Hosts, SERVER, download};

const SCENARIO: &str = "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=100";

#[test]
fn data_passes_in_both_ip_versions_with_every_kind_of_queue() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("iop");
    for policy in ["fifo", "fq_codel", "dualpi2"] {
        let network = hosts.network(SCENARIO, &["--policy", policy]);
        for server in SERVER {
            download(&hosts, server, 200_000);
        }
        let counters = network.end(&hosts);
        assert_eq!(counters.lost, 0, "{policy}: {counters:?}");
    }
}

#[test]
fn the_start_script_of_the_container_routes_between_two_networks() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::routed("iopr");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/interop/start");
    let network = hosts.start(&[script], SCENARIO, &["--policy", "fq_codel"]);
    for server in ["10.9.8.9", "fd09:8::9"] {
        download(&hosts, server, 500_000);
    }
    let counters = network.end(&hosts);
    assert!(counters.sent > 700, "all packets pass the link: {counters:?}");
}

#[test]
fn a_full_queue_drops() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("iopq");
    // A packet takes 8 s, so only the queue and the wire hold some.
    let network = hosts.network("simple-p2p --delay=1ms --bandwidth=1kbps --queue=25", &[]);
    Hosts::send(&hosts.client, SERVER[0], 40);
    Hosts::send(&hosts.server, CLIENT[0], 40);
    network.wait_until_idle();
    let counters = network.end(&hosts);
    // Of 40 in each direction, 25 wait and one is on the wire; neighbour discovery may add some.
    assert!((20..=40).contains(&counters.policy_drops), "{counters:?}");
    assert_eq!(Hosts::received(&hosts.server), 0);
}

#[test]
fn packets_are_dropped_at_the_rates_of_the_scenario() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("iopd");
    let scenario = "drop-rate --delay=1ms --bandwidth=1Gbps --queue=3000 --rate_to_client=10 \
                    --rate_to_server=30 --burst_to_client=1000 --burst_to_server=1000";
    for (from, address, to, share) in [
        (&hosts.client, SERVER[0], &hosts.server, 0.3),
        (&hosts.server, CLIENT[0], &hosts.client, 0.1),
    ] {
        let network = hosts.network(scenario, &[]);
        Hosts::send(from, address, 2000);
        network.wait_until_idle();
        let counters = network.end(&hosts);
        // A busy machine may lose some on the way into the network.
        let came = counters.received as f64;
        assert!(came > 1000.0, "{counters:?}");
        let (passed, wanted) = (Hosts::received(to) as f64, came * (1.0 - share));
        // Five standard deviations of a binomial distribution, and neighbour discovery.
        let margin = 5.0 * (wanted * share).sqrt() + 10.0;
        assert!((passed - wanted).abs() < margin, "{passed}, not {wanted} of {counters:?}");
    }
}

#[test]
fn a_black_hole_swallows_one_direction() {
    if !has_root() {
        return;
    }
    let hosts = Hosts::new("iopb");
    let scenario = "blackhole --delay=1ms --bandwidth=100Mbps --queue=100 --on=0s --off=1h \
                    --direction=toserver";
    let network = hosts.network(scenario, &[]);
    Hosts::send(&hosts.client, SERVER[0], 50);
    Hosts::send(&hosts.server, CLIENT[0], 50);
    until("the other direction passes", || Hosts::received(&hosts.client) == 50);
    network.wait_until_idle();
    network.end(&hosts);
    assert_eq!(Hosts::received(&hosts.server), 0);
}
