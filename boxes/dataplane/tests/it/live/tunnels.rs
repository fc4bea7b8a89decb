//! Devices without Ethernet headers, and both ends behind different framings: what leaves is what
//! arrives, and has the same bytes.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{Counts, Error, Hook, Netdev, Sampler};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{self, run};
use forebay_test_support::tun::{Carrier, Tun};
use forebay_units::Bytes;

use crate::seen::{Comparison, Seen};
use crate::sites::{send_raw, until};
use crate::tunnel::{self, address, datagrams, ends, observer, rule};

#[test]
fn what_leaves_by_a_tunnel_is_what_arrives_from_it() {
    if has_root() {
        tunnel::compare(Comparison::with_missed());
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
    let [a, b] = ends();
    let tun = Tun::new(&a, "tun0", false);
    address(&a, "tun0", 1, 2);
    // The frames go out at `fbo` and arrive at `eth0`.
    run(&format!("ip -n {0} link add eth0 type veth peer name fbo netns {0}", b.0));
    // With room for the tags and labels.
    run(&format!("ip -n {} link set fbo mtu 1600 up", b.0));
    run(&format!("ip -n {} link set eth0 mtu 1600 up", b.0));
    let mut observer = observer(&a, "tun0");
    namespace::enter(&b.0);
    let netdev = Netdev::find("eth0").unwrap();
    let mut samplers =
        [Hook::Xdp, Hook::Tc].map(|hook| Sampler::attach_at(&netdev, &[rule()], hook).unwrap());
    let (mut macs, place) = ([2; 12], b.0.clone());
    macs[..6].copy_from_slice(&netdev.mac);
    let link = Arc::new(Mutex::new(Vec::new()));
    let current = Arc::clone(&link);
    let mut carrier = Carrier::default();
    let begun = Cell::new(false);
    carrier.carry(&tun, move |packet| {
        if !begun.replace(true) {
            namespace::enter(&place);
        }
        send_raw("fbo", &frame(&macs, &current.lock().unwrap(), packet));
    });
    for (name, bytes) in [
        ("Ethernet", vec![]),
        ("802.1Q", vec![0x81, 0, 0x20, 7]),
        ("802.1ad", vec![0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]),
        ("PPPoE", vec![0x88, 0x64, 0x11, 0, 0, 9]),
        ("MPLS", vec![0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]),
    ] {
        *link.lock().unwrap() = bytes;
        let left_before = observer.counts(0).unwrap();
        let before = samplers.each_ref().map(|sampler| sampler.counts(0).unwrap());
        datagrams(&a);
        let left = Seen::leaving(&mut observer, 0, left_before);
        // 116 datagrams in each version. Those of more than 1472 bytes are in two fragments, in
        // IPv6 those of more than 1452.
        assert_eq!(left.counts.packets, 2 * 116 + 2 + 4, "{name}");
        for (sampler, before) in samplers.iter_mut().zip(before) {
            let packets = before.packets + left.counts.packets;
            until(|| sampler.counts(0).unwrap().packets >= packets);
            let arrived = Seen::arriving(sampler, before);
            assert!(arrived.packets() == left.packets(), "{name} at {}", sampler.hook());
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
    namespace::enter(&a.0);
    let is_refused = |tun: &'static str, error: Option<Error>, words: &str| {
        let error = error.map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{tun}: {error}");
    };
    let attach_xdp = |netdev| Sampler::attach_at(netdev, &[rule()], Hook::Xdp).err();

    let _tun = Tun::of_type(&a, "fb-ppp", 512);
    let ppp = Netdev::find("fb-ppp").unwrap();
    EgressObserver::attach(&ppp).unwrap();
    Sampler::attach(&ppp, &[rule()]).unwrap();
    Sampler::attach_at(&ppp, &[rule()], Hook::Tc).unwrap();
    is_refused("fb-ppp", attach_xdp(&ppp), "is no Ethernet device");

    // Either program is the same on these. To load it takes the kernel most of a second.
    let _tun = Tun::of_type(&a, "fb-ipip", 768);
    let ipip = Netdev::find("fb-ipip").unwrap();
    EgressObserver::attach(&ipip).unwrap();
    is_refused("fb-ipip", attach_xdp(&ipip), "is no Ethernet device");
    let _tun = Tun::of_type(&a, "fb-sit", 776);
    let sit = Netdev::find("fb-sit").unwrap();
    Sampler::attach(&sit, &[rule()]).unwrap();
    is_refused("fb-sit", attach_xdp(&sit), "is no Ethernet device");

    let _tun = Tun::of_type(&a, "fb-ib", 32);
    let ib = Netdev::find("fb-ib").unwrap();
    let unknown = "hardware type is 32";
    is_refused("fb-ib", EgressObserver::attach(&ib).err(), unknown);
    is_refused("fb-ib", Sampler::attach(&ib, &[rule()]).err(), unknown);
    is_refused("fb-ib", Sampler::attach_at(&ib, &[rule()], Hook::Tc).err(), unknown);
    is_refused("fb-ib", attach_xdp(&ib), "is no Ethernet device");
}
