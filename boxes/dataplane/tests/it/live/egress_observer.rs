//! What a sendbox over the kernel's queues sees, against what arrives: between real namespaces,
//! with the kernel's own TCP and its own segmentation.

use std::collections::BTreeSet;

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{BundleRule, Counts, Hook, Netdev, Sample, Sampler};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{self, run};
use forebay_units::Bytes;

use crate::egress::{self, Observation, filter};
use crate::seen::Comparison;
use crate::sites::{FROM, KEY, Sites, TO, host, prefixes, until};

#[test]
fn what_leaves_is_what_arrives_with_tso_on_and_off() {
    if has_root() {
        egress::compare_with_tso_on_and_off(Comparison::with_missed());
    }
}

#[test]
fn super_packets_that_stay_whole_are_seen_alike_at_both_ends() {
    if has_root() {
        egress::compare_whole_super_packets(Comparison::with_missed());
    }
}

#[test]
fn super_packets_of_more_than_64_kib_are_seen_as_their_segments() {
    if has_root() {
        egress::compare_super_packets_of_more_than_64_kib(Comparison::with_missed());
    }
}

/// A router takes padding off, as every NIC puts it on: what leaves with it arrives without, and is
/// the same packet.
#[test]
fn padding_is_counted_nowhere() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    sites.introduce();
    let mut observation = Observation::new(&sites, &[Hook::Xdp, Hook::Tc]);
    let (left, arrived) = observation.observe(|sites| {
        for version in [0, 1] {
            sites.padded(version, 4, 18);
        }
    });
    let bytes = [20, 40].map(|ip| ip + 8 + 4).iter().sum();
    assert_eq!(left.counts, Counts { bytes: Bytes(bytes), packets: 2 });
    for seen in &arrived {
        assert_eq!(seen.counts, left.counts);
        assert!(seen.packets() == left.packets());
    }
}

#[test]
fn bundles_and_epochs_change_while_packets_leave() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    namespace::enter(&sites.from.0);
    let mut observer = EgressObserver::attach(&Netdev::find("eth0").unwrap()).unwrap();
    let send = |observer: &mut EgressObserver| {
        sites.udp(host(0), 5000..5256, 100, 0);
        let mut n = 0;
        observer.poll(|_| n += 1).unwrap();
        n
    };
    assert_eq!(send(&mut observer), 0, "nobody's packets");
    // A thousand bundles and more; the longest prefix decides.
    let mut bundles: Vec<_> =
        (0..2000).map(|i| prefixes(&[&format!("10.{}.{}.0/24", 100 + i / 256, i % 256)])).collect();
    bundles[7].extend(prefixes(&["10.9.0.0/16", "0.0.0.0/0"]));
    bundles[1999].extend(prefixes(&["10.9.2.0/25"]));
    observer.set_bundles(&bundles).unwrap();
    assert_eq!(send(&mut observer), 0, "no epoch size, no boundaries");
    assert_eq!(observer.counts(1999).unwrap().packets, 256);
    assert_eq!(observer.counts(1999).unwrap().bytes.0, 256 * 128);
    observer.set_key(1999, KEY).unwrap();
    observer.set_epoch(1999, 16).unwrap();
    let sixteenth = send(&mut observer);
    assert!((1..=64).contains(&sixteenth), "about 16 of 256: {sixteenth}");
    observer.set_key(1999, KEY).unwrap();
    observer.set_epoch(1999, 1).unwrap();
    assert_eq!(send(&mut observer), 256);
    bundles[1999].pop();
    observer.set_bundles(&bundles).unwrap();
    assert_eq!(send(&mut observer), 0, "now another bundle's");
    assert_eq!(observer.counts(1999).unwrap().packets, 3 * 256);
    assert_eq!(observer.counts(7).unwrap().packets, 256);
    let too_many = observer.set_bundles(&vec![vec![]; 20_000]).unwrap_err().to_string();
    assert_eq!(too_many, "20000 bundles, but there is room for 16384");
    let _ = send(&mut observer);
    assert_eq!(observer.counts(7).unwrap().packets, 512, "nothing has changed");
}

/// The classifier lets the kernel hash a packet's flow. Segments of a super-packet have no pause
/// between them.
#[test]
fn pauses_of_flows_are_known() {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(300);
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    let mut observation = Observation::new(&sites, &[Hook::Tc]);
    observation.add_queues();
    let (left, arrived) = observation.observe(|sites| {
        sites.tcp(0, 1 << 18);
        std::thread::sleep(PAUSE);
        // A socket of its own, and so a flow of its own, for each.
        (7000..7003).for_each(|port| sites.udp(host(0), port..port + 1, 100, 0));
    });
    let flows: Vec<_> = left.samples.iter().map(|s| s.flow.unwrap()).collect();
    let (tcp, new) = flows.split_last_chunk::<3>().unwrap();
    let data: Vec<_> = tcp.iter().filter(|flow| flow.hash == tcp[0].hash).collect();
    assert!(data.len() > 100, "{flows:?}");
    let together = data.iter().filter(|flow| flow.pause_us == 0).count();
    assert!(together > data.len() / 2, "segments of super-packets: {flows:?}");
    assert!(new.iter().all(|flow| flow.hash != tcp[0].hash), "{flows:?}");
    // Two of three may share a place with one of the three or the connection.
    assert!(new.iter().any(|flow| flow.pause_us >= 300_000), "{flows:?}");
    assert!(arrived[0].samples.iter().all(|s| s.flow.is_none()));
}

#[test]
fn a_full_ring_loses_reports_and_says_how_many() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    namespace::enter(&sites.from.0);
    let mut observer = EgressObserver::attach(&Netdev::find("eth0").unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO)]).unwrap();
    observer.set_key(0, KEY).unwrap();
    observer.set_epoch(0, 1).unwrap();
    (0..40).for_each(|_| sites.udp(host(0), 6000..6200, 100, 0));
    let (mut reported, lost) = (0, observer.samples_lost().unwrap());
    observer.poll(|_| reported += 1).unwrap();
    assert_eq!(observer.counts(0).unwrap().packets, 8000, "all are counted");
    assert_eq!(reported + lost, 8000);
    assert!(lost > 1000, "{lost}");
}

/// A veth whose ring is full refuses a packet, and the qdisc offers it again (since Linux 6.16;
/// before, it drops). Each packet counts once.
#[test]
fn a_packet_that_the_driver_refused_is_counted_when_it_takes_it() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    // While the router's address is not known, a few datagrams wait for it and all others are lost.
    sites.introduce();
    let (a, r) = (&sites.from.0, &sites.router.0);
    run(&format!("tc -n {a} qdisc add dev eth0 root handle fb0: htb"));
    let shape = "rate 32gbit burst 10mb cburst 10mb quantum 3028";
    run(&format!("tc -n {a} class add dev eth0 parent fb0: classid fb0:1 htb {shape}"));
    // Room for all, however late the ring is emptied.
    run(&format!("tc -n {a} qdisc add dev eth0 parent fb0:1 pfifo limit 200000"));
    // A thread of its own empties the ring, when it comes to it, and not the sender itself.
    run(&format!("ip netns exec {r} ethtool -K fbl gro on"));
    let threaded = "echo 1 > /sys/class/net/fbl/threaded";
    let mut shell = std::process::Command::new("ip");
    assert!(shell.args(["netns", "exec", r, "sh", "-c", threaded]).status().unwrap().success());
    namespace::enter(&r.clone());
    let rule = BundleRule {
        sources: prefixes(&FROM),
        destinations: prefixes(&TO),
        key: KEY,
        epoch: 1 << 24,
    };
    let netdev = Netdev::find("fbl").unwrap();
    let arrived = Sampler::attach_at(&netdev, &[rule], Hook::Xdp).unwrap();
    namespace::enter(&a.clone());
    let mut observer = EgressObserver::attach(&Netdev::find("eth0").unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO)]).unwrap();
    filter(&sites, &observer);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..4).for_each(|_| sites.udp(host(0), 10_000..20_000, 100, 0)));
        }
    });
    // What the thread has not taken from the ring yet has left, but not arrived.
    until(|| arrived.counts(0).unwrap().packets >= 160_000);
    let text = run(&format!("tc -s -n {a} qdisc show dev eth0"));
    let root = text.split("pfifo").next().unwrap();
    assert!(!root.contains("requeues 0)"), "the ring was never full: {text}");
    assert_eq!(observer.counts(0).unwrap(), arrived.counts(0).unwrap(), "{text}");
    assert_eq!(arrived.counts(0).unwrap().packets, 160_000, "{text}");
}

/// Waits until as many packets of a bundle have left: queues let go of them at a rate.
fn leave(observer: &EgressObserver, bundle: usize, packets: u64) {
    until(|| observer.counts(bundle).unwrap().packets >= packets);
    assert_eq!(observer.counts(bundle).unwrap().packets, packets);
}

#[test]
fn the_classifier_finds_a_bundles_class_and_brings_payload_into_sight() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    let a = &sites.from.0;
    namespace::enter(&sites.to.0.clone());
    let rule =
        BundleRule { sources: prefixes(&FROM), destinations: prefixes(&TO), key: KEY, epoch: 1 };
    let mut arrived =
        Sampler::attach_at(&Netdev::find("eth0").unwrap(), &[rule], Hook::Xdp).unwrap();
    namespace::enter(&a.clone());
    let mut observer = EgressObserver::attach(&Netdev::find("eth0").unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO[..1]), prefixes(&TO[1..])]).unwrap();
    for bundle in 0..2 {
        observer.set_key(bundle, KEY).unwrap();
        observer.set_epoch(bundle, 1).unwrap();
    }
    run(&format!("tc -n {a} qdisc add dev eth0 root handle fb0: htb"));
    for class in [1, 2] {
        let shape = "rate 1gbit quantum 3028";
        run(&format!("tc -n {a} class add dev eth0 parent fb0: classid fb0:{class} htb {shape}"));
    }
    // Of a super-packet without an ID the first segment has a fingerprint: of payload that the
    // tracepoint does not find where the kernel put it. All of them together are less than the 256
    // packets that a veth holds: a receiver that is kept waiting loses none.
    let datagrams = |observer: &mut EgressObserver, ports, all: u64| {
        sites.udp(host(1), ports, 10_300, 1000);
        leave(observer, 1, all * 11);
        let mut seen = BTreeSet::new();
        let mut take = |s: Sample| {
            seen.insert(s.fingerprint);
        };
        observer.poll(&mut take).unwrap();
        seen
    };
    assert_eq!(datagrams(&mut observer, 7000..7010, 10).len(), 0, "out of observer");
    filter(&sites, &observer);
    let left = datagrams(&mut observer, 8000..8010, 20);
    assert_eq!(left.len(), 10, "in observer");
    let mut seen = BTreeSet::new();
    // What has left arrives a moment later.
    until(|| {
        let mut take = |s: Sample| {
            seen.insert(s.fingerprint);
        };
        arrived.poll(&mut take).unwrap();
        left.is_subset(&seen)
    });

    sites.udp(host(0), 9000..9100, 100, 0);
    sites.udp("10.9.1.1:0".parse().unwrap(), 9000..9100, 100, 0);
    leave(&observer, 0, 100);
    let text = run(&format!("tc -s -n {a} class show dev eth0"));
    let sent: Vec<_> = text.lines().filter(|l| l.contains("Sent")).map(str::trim).collect();
    let sent = |class: usize| sent[class].split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    // The queues count Ethernet headers, too.
    let with_headers = |bundle| {
        let counts = observer.counts(bundle).unwrap();
        counts.bytes.0 + 14 * counts.packets
    };
    assert_eq!(sent(0), with_headers(0), "{text}");
    // The kernel's own account of super-packets is of their segments, too.
    assert_eq!(sent(1), with_headers(1) / 2, "{text}");
}
