//! Tests faults while fifty connections run through the bundle: no connection ends, and no queued
//! packet is lost without need.

use std::time::{Duration, Instant};

use forebay_test_support::has_root;
use forebay_test_support::namespace::run;

use crate::support::sites::{SENDBOX, Sites};
use crate::support::transfer::Transfers;
use crate::support::until;

const CONNECTIONS: usize = 50;

/// Sites without segmentation offloads, so that the packets that enter the router can be compared
/// with those that leave it.
fn countable(name: &str) -> Sites {
    let sites = Sites::new(name);
    // The queue has room for all packets in flight, so a missing packet was lost elsewhere.
    let roomy = format!("{SENDBOX}policy = {{ kind = \"sfq\", limit = \"10000 packets\" }}\n");
    sites.dir.file("sendbox.toml", &roomy, 0o644);
    run(&format!("ip netns exec {} ethtool -K eth0 tso off gso off", sites.from.0));
    run(&format!("ip netns exec {} ethtool -K fb-in gro off", sites.router.0));
    // No address resolution and no IPv6: only the bundle's packets enter, and only they and the
    // sendbox's messages leave.
    for (namespace, device, peer, other) in [
        (&sites.from, "eth0", "10.9.1.1", (&sites.router, "fb-in")),
        (&sites.router, "fb-in", "10.9.1.2", (&sites.from, "eth0")),
        (&sites.router, "fb-out", "10.9.9.2", (&sites.to, "eth0")),
        (&sites.router, "fb-out", "10.9.9.3", (&sites.to, "eth0")),
        (&sites.to, "eth0", "10.9.9.1", (&sites.router, "fb-out")),
    ] {
        let (of, other) = (&other.0.0, other.1);
        let mac = run(&format!("ip netns exec {of} cat /sys/class/net/{other}/address"));
        let (mac, namespace) = (mac.trim(), &namespace.0);
        run(&format!(
            "ip -n {namespace} neigh replace {peer} lladdr {mac} nud permanent dev {device}"
        ));
        run(&format!("ip netns exec {namespace} sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1"));
    }
    sites
}

#[test]
fn crashes_cost_no_connection_and_no_packet() {
    if has_root() {
        crash(4);
    }
}

/// Kills a sendbox this number of times, and accounts for every packet. Returns how long it took
/// each time until packets passed without a limit.
pub(crate) fn crash(times: usize) -> Vec<Duration> {
    let sites = countable("fd");
    let arrived = || sites.count("fb-in", "rx_packets");
    let own = || sent_by_itself(&sites);
    let (before, own_before) = (arrived(), own());
    let mut sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", CONNECTIONS);
    let mut lifted = Vec::new();
    for _ in 0..times {
        sites.wait_for_control();
        until("something waits", || sites.class().is_some_and(|c| c.waiting > 0));
        let start = Instant::now();
        sendbox.signal(libc::SIGKILL);
        sites.wait_for_bypass();
        lifted.push(start.elapsed());
        transfers.go_on();
        let sent = sites.class().unwrap().sent;
        sendbox = sites.sendbox();
        assert!(sites.class().unwrap().sent >= sent, "the tree is adopted, not made anew");
        transfers.go_on();
    }
    transfers.end();
    // Nothing but the site's packets passes the queues from here on.
    sendbox.signal(libc::SIGKILL);
    // If one of the restarts had lost the queue, these counts would differ for good. They may
    // differ for a moment, while the last acknowledgements are in flight.
    until("every packet went through the router's queues", || {
        let through = sites.class().unwrap().sent + sites.unlimited();
        through == arrived() - before + own() - own_before
    });
    let class = sites.class().unwrap();
    assert_eq!((class.dropped, sites.count("fb-out", "tx_dropped")), (0, 0));
    lifted
}

/// The packets that the router has sent by itself: the sendbox's messages, and ICMP.
fn sent_by_itself(sites: &Sites) -> u64 {
    let text = run(&format!("ip netns exec {} cat /proc/net/snmp", sites.router.0));
    let count = |protocol: &str, name: &str| -> u64 {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
        let [names, values] = [lines.next().unwrap(), lines.next().unwrap()];
        let place = names.split(' ').position(|n| n == name).unwrap();
        values.split(' ').nth(place).unwrap().parse().unwrap()
    };
    count("Udp: ", "OutDatagrams") + count("Icmp: ", "OutMsgs")
}

#[test]
fn a_hung_sendbox_holds_no_packet_back() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("fh");
    let mut sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", CONNECTIONS);
    sites.wait_for_control();
    sendbox.stop();
    sites.wait_for_bypass();
    transfers.go_on();
    sendbox.go_on();
    let before = sites.class().unwrap().sent;
    until("packets are in the bundle's class again", || sites.class().unwrap().sent > before + 100);
    sites.wait_for_control();
    transfers.go_on();
    sendbox.signal(libc::SIGTERM);
    transfers.end();
}

/// Tests that failed once beside other work of the machine.
mod measured {
    use super::*;

    #[test]
    fn a_device_down_and_deleted_qdiscs_cost_no_connection() {
        if !has_root() {
            return;
        }
        let sites = Sites::new("ff");
        let mut sendbox = sites.sendbox();
        let transfers = Transfers::start(&sites, "10.9.9.2", CONNECTIONS);
        sites.wait_for_control();

        let ip = |state: &str| run(&format!("ip -n {} link set fb-out {state}", sites.router.0));
        ip("down");
        until("it is said", || {
            sites.said().contains("fb-out is down: the waiting packets are lost")
        });
        ip("up");
        until("it is said", || sites.said().contains("fb-out is up again"));
        assert!(sites.class().is_some(), "the tree is still there");
        transfers.go_on();
        sites.wait_for_control();

        sites.tc("qdisc del {} root");
        until("it is said", || {
            sites.said().contains("the queues of fb-out: another program changed them")
        });
        until("that it is right, too", || {
            sites.said().contains("the queues of fb-out are repaired")
        });
        sites.wait_for_control();
        transfers.go_on();

        // Qdiscs that replaced ours are logged and left alone as long as they exist.
        sites.tc("qdisc replace {} root handle 7: pfifo limit 77");
        until("it is said", || {
            sites.said().contains("already has queues of another owner (pfifo 7:)")
        });
        transfers.go_on();
        assert!(sites.class().is_none());
        sites.tc("qdisc del {} root");
        sites.wait_for_control();
        transfers.go_on();

        sendbox.signal(libc::SIGTERM);
        transfers.end();
    }
}
