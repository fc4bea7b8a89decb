//! Devices without Ethernet headers, and both ends behind different framings: what leaves is what
//! arrives, and has the same bytes. Needs root; says so and passes without.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod namespace;
mod sites;
mod tunnel;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{BundleRule, Counts, Hook, Netdev, Sampler};
use forebay_units::Bytes;
use namespace::{Namespace, has_root, run, within};
use sites::{KEY, prefixes, send_raw, until};
use tunnel::{Carrier, Tun};

const FROM: [&str; 2] = ["10.9.1.0/24", "fd09:1::/64"];
const TO: [&str; 2] = ["10.9.2.0/24", "fd09:2::/64"];

/// Two namespaces, each with one end of a tunnel.
fn ends() -> [Namespace; 2] {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    ["a", "b"].map(|n| Namespace::new(format!("fb-tu{id}-{n}")))
}

/// Gives a tunnel's end its addresses, and the route to the other end's.
fn address(namespace: &Namespace, device: &str, here: usize, there: usize) {
    let name = &namespace.0;
    run(&format!("ip -n {name} address add 10.9.{here}.2/24 dev {device}"));
    run(&format!("ip -n {name} address add fd09:{here}::2/64 dev {device} nodad"));
    run(&format!("ip -n {name} route add 10.9.{there}.0/24 dev {device}"));
    run(&format!("ip -n {name} -6 route add fd09:{there}::/64 dev {device}"));
}

fn observer(namespace: &Namespace, device: &'static str) -> EgressObserver {
    namespace::enter(&namespace.0);
    let mut observer = EgressObserver::attach(&Netdev::find(device).unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO)]).unwrap();
    observer.set_key(0, KEY).unwrap();
    observer.set_epoch(0, 1).unwrap();
    observer
}

fn rule() -> BundleRule {
    BundleRule { sources: prefixes(&FROM), destinations: prefixes(&TO), key: KEY, epoch: 1 }
}

/// A TCP connection in each IP version, and datagrams of many lengths.
fn traffic(from: &Namespace, to: &Namespace) {
    for host in ["10.9.2.2", "fd09:2::2"] {
        let listener = within(&to.0, move || TcpListener::bind((host, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all.len()
        });
        within(&from.0, move || {
            TcpStream::connect(address).unwrap().write_all(&vec![0x5a; 1 << 20]).unwrap();
        });
        assert_eq!(reader.join().unwrap(), 1 << 20);
    }
    datagrams(from);
}

/// A datagram of each length from 0 to 1499 bytes in steps, in both IP versions; some are in
/// fragments.
fn datagrams(from: &Namespace) {
    within(&from.0, || {
        for (any, host) in [("0.0.0.0:0", "10.9.2.2:4000"), ("[::]:0", "[fd09:2::2]:4000")] {
            let socket = UdpSocket::bind(any).unwrap();
            for len in (0..1500).step_by(13) {
                // Nobody listens there, which the next datagram may be told.
                let _ = socket.send_to(&vec![0xa5; len], host);
            }
        }
    });
}

/// What was seen at a place: the counts, and how often each fingerprint.
fn seen(poll: impl FnOnce(&mut dyn FnMut(u32)), counts: Counts) -> (Counts, BTreeMap<u32, u32>) {
    let mut all = BTreeMap::new();
    poll(&mut |fingerprint| *all.entry(fingerprint).or_default() += 1);
    (counts, all)
}

#[test]
fn what_leaves_by_a_tunnel_is_what_arrives_from_it() {
    if !has_root() {
        return;
    }
    for super_packets in [false, true] {
        let [a, b] = ends();
        let (one, other) =
            (Tun::new(&a, "tun0", super_packets), Tun::new(&b, "tun0", super_packets));
        address(&a, "tun0", 1, 2);
        address(&b, "tun0", 2, 1);
        let mut carrier = Carrier::default();
        carrier.join(&one, &other);
        let mut left = observer(&a, "tun0");
        namespace::enter(&b.0);
        let mut arrived = Sampler::attach(&Netdev::find("tun0").unwrap(), &[rule()]).unwrap();
        assert_eq!(arrived.hook(), Hook::Tc, "XDP would look for Ethernet headers");
        traffic(&a, &b);
        until(|| arrived.counts(0).unwrap().packets >= left.counts(0).unwrap().packets);
        let sent = within(&a.0, || {
            let path = "/proc/thread-self/net/dev";
            let text = std::fs::read_to_string(path).unwrap();
            let line = text.lines().find(|l| l.contains("tun0")).unwrap().to_owned();
            line.split_whitespace().nth(10).unwrap().parse::<u64>().unwrap()
        });
        let left_counts = left.counts(0).unwrap();
        if super_packets {
            assert!(sent < left_counts.packets / 2, "super-packets: {sent}, {left_counts:?}");
        }
        let (counts, fingerprints) =
            seen(|f| left.poll(|s| f(s.fingerprint)).unwrap(), left_counts);
        let arrived_counts = arrived.counts(0).unwrap();
        let at_end = seen(|f| arrived.poll(|s| f(s.fingerprint)).unwrap(), arrived_counts);
        assert!(counts.packets > 1500, "{counts:?}");
        assert_eq!(counts, at_end.0, "super-packets: {super_packets}");
        assert!(fingerprints == at_end.1, "super-packets: {super_packets}");
        assert_eq!(fingerprints.values().sum::<u32>() as u64, counts.packets, "all have one");
        assert_eq!((left.not_understood().unwrap(), arrived.not_understood().unwrap()), (0, 0));
    }
}

/// An Ethernet header around a packet, with what a provider puts between the two.
fn frame(macs: &[u8; 12], link: &[u8], packet: &[u8]) -> Vec<u8> {
    let is_ipv6 = packet[0] >> 4 == 6;
    let (ethertype, ppp) = if is_ipv6 { ([0x86, 0xdd], [0, 0x57]) } else { ([8, 0], [0, 0x21]) };
    let mut frame = [&macs[..], link].concat();
    match link {
        [0x88, 0x64, ..] => {
            frame.extend((packet.len() as u16 + 2).to_be_bytes());
            frame.extend(ppp);
        }
        [0x88, 0x47, ..] => {}
        _ => frame.extend(ethertype),
    }
    frame.extend(packet);
    // Ethernet pads to 60 bytes, without the checksum.
    let len = frame.len().max(60);
    frame.resize(len, 0);
    frame
}

/// One site has a tunnel, and the other a VLAN, PPPoE or MPLS: both count the same bytes.
#[test]
fn ends_behind_different_framings_count_the_same_bytes() {
    if !has_root() {
        return;
    }
    for (name, link) in [
        ("Ethernet", vec![]),
        ("802.1Q", vec![0x81, 0, 0x20, 7]),
        ("802.1ad", vec![0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]),
        ("PPPoE", vec![0x88, 0x64, 0x11, 0, 0, 9]),
        ("MPLS", vec![0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]),
    ] {
        let [a, b] = ends();
        let tun = Tun::new(&a, "tun0", false);
        address(&a, "tun0", 1, 2);
        // The frames go out at `fbo` and arrive at `eth0`.
        run(&format!("ip -n {0} link add eth0 type veth peer name fbo netns {0}", b.0));
        // With room for the tags and labels.
        run(&format!("ip -n {} link set fbo mtu 1600 up", b.0));
        run(&format!("ip -n {} link set eth0 mtu 1600 up", b.0));
        let mut left = observer(&a, "tun0");
        namespace::enter(&b.0);
        let netdev = Netdev::find("eth0").unwrap();
        let mut at_both =
            [Hook::Xdp, Hook::Tc].map(|hook| Sampler::attach_at(&netdev, &[rule()], hook).unwrap());
        let (mut macs, place) = ([2; 12], b.0.clone());
        macs[..6].copy_from_slice(&netdev.mac);
        let mut carrier = Carrier::default();
        let begun = std::cell::Cell::new(false);
        carrier.carry(&tun, move |packet| {
            if !begun.replace(true) {
                namespace::enter(&place);
            }
            send_raw("fbo", &frame(&macs, &link, packet));
        });
        datagrams(&a);
        let left_counts = left.counts(0).unwrap();
        until(|| at_both.iter().all(|s| s.counts(0).unwrap().packets >= left_counts.packets));
        let (counts, fingerprints) =
            seen(|f| left.poll(|s| f(s.fingerprint)).unwrap(), left_counts);
        // 116 datagrams in each version. Those of more than 1472 bytes are in two fragments, in
        // IPv6 those of more than 1452.
        assert_eq!(counts.packets, 2 * 116 + 2 + 4, "{name}");
        for sampler in &mut at_both {
            let arrived = sampler.counts(0).unwrap();
            let at_end = seen(|f| sampler.poll(|s| f(s.fingerprint)).unwrap(), arrived);
            assert_eq!(at_end.0, counts, "{name} at {}", sampler.hook());
            assert!(at_end.1 == fingerprints, "{name} at {}", sampler.hook());
            assert_eq!(sampler.not_understood().unwrap(), 0, "{name} at {}", sampler.hook());
        }
    }
}

/// Frames in which no IP packet is found are counted, and others are not.
#[test]
fn what_is_not_understood_is_counted() {
    if !has_root() {
        return;
    }
    let [a, b] = ends();
    run(&format!("ip -n {0} link add eth0 type veth peer name fbo netns {0}", b.0));
    run(&format!("ip -n {} link set fbo up", b.0));
    run(&format!("ip -n {} link set eth0 up", b.0));
    // The kernel's own packets would be counted as well.
    run(&format!("ip netns exec {} sysctl -qw net.ipv6.conf.all.disable_ipv6=1", b.0));
    namespace::enter(&b.0);
    let netdev = Netdev::find("eth0").unwrap();
    let observer = EgressObserver::attach(&Netdev::find("fbo").unwrap()).unwrap();
    let samplers =
        [Hook::Xdp, Hook::Tc].map(|hook| Sampler::attach_at(&netdev, &[rule()], hook).unwrap());
    let mut macs = [2; 12];
    macs[..6].copy_from_slice(&netdev.mac);
    let counts = || {
        let arrived = samplers.iter().map(|s| s.not_understood().unwrap());
        arrived.chain([observer.not_understood().unwrap()]).collect::<Vec<_>>()
    };
    let before = counts();
    let ip = [&[0x45, 0, 0, 20][..], &[0; 16]].concat();
    for (link, understood) in [
        (&[8, 6][..], true),
        (&[0, 38], true),
        (&[0x88, 0xcc], true),
        (&[8, 0], true),
        // MACsec, five labels, and more than two tags even if the device takes one out.
        (&[0x88, 0xe5], false),
        (&[0x88, 0x47, 0, 1, 0, 64, 0, 1, 0, 64, 0, 1, 0, 64, 0, 1, 0, 64, 0, 1, 1, 64], false),
        (&[0x81, 0, 0, 1, 0x81, 0, 0, 1, 0x81, 0, 0, 1, 0x81, 0, 0, 1, 8, 0], false),
    ] {
        let expected: Vec<_> = counts().iter().map(|n| n + u64::from(!understood)).collect();
        let mut frame = [&macs[..], link, &ip].concat();
        frame.resize(60, 0);
        send_raw("fbo", &frame);
        until(|| counts().iter().zip(&expected).all(|(now, want)| now >= want));
        assert_eq!(counts(), expected, "{link:02x?}");
    }
    assert_eq!(counts(), before.iter().map(|n| n + 3).collect::<Vec<_>>());

    // On a tunnel, what is neither IPv4 nor IPv6.
    let tun = Tun::new(&a, "tun0", false);
    namespace::enter(&a.0);
    let sampler = Sampler::attach(&Netdev::find("tun0").unwrap(), &[rule()]).unwrap();
    let mut packet =
        [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0][..], &[10, 9, 1, 9, 10, 9, 2, 9]].concat();
    tun.arrive(&packet);
    until(|| sampler.counts(0).unwrap() == Counts { bytes: Bytes(20), packets: 1 });
    let before = sampler.not_understood().unwrap();
    // The header is longer than the packet.
    packet[0] = 0x4f;
    tun.arrive(&packet);
    until(|| sampler.not_understood().unwrap() > before);
    assert_eq!(sampler.counts(0).unwrap().packets, 1);
}

/// The device's type says whether its packets have an Ethernet header. The numbers are those of
/// linux/if_arp.h.
#[test]
fn devices_of_unknown_framing_are_refused() {
    if !has_root() {
        return;
    }
    let [a, _b] = ends();
    for (name, hardware, works) in
        [("fb-ppp", 512, true), ("fb-ipip", 768, true), ("fb-sit", 776, true), ("fb-ib", 32, false)]
    {
        let _tun = Tun::of_type(&a, name, hardware);
        namespace::enter(&a.0);
        let netdev = Netdev::find(name).unwrap();
        let errors = [
            EgressObserver::attach(&netdev).err(),
            Sampler::attach(&netdev, &[rule()]).err(),
            Sampler::attach_at(&netdev, &[rule()], Hook::Tc).err(),
        ];
        for error in errors {
            match error {
                None => assert!(works, "{name}"),
                Some(error) => {
                    let error = error.to_string();
                    assert!(!works && error.contains("hardware type is 32"), "{name}: {error}");
                }
            }
        }
        let error = Sampler::attach_at(&netdev, &[rule()], Hook::Xdp).err().unwrap().to_string();
        assert!(error.contains("is no Ethernet device"), "{name}: {error}");
    }
}
