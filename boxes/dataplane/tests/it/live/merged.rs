//! What GRO made of packets that arrived, and what is seen of it when it leaves again; and
//! receiveboxes where there is no XDP.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{BundleRule, Hook, Netdev, Sampler};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{self, run, within};
use forebay_wire::{Frame, fingerprint};

use crate::seen::Seen;
use crate::sites::{KEY, Sites, TO, prefixes, until};

const PAYLOAD: usize = 1000;

fn mac(namespace: &str, device: &'static str) -> [u8; 6] {
    within(namespace, move || Netdev::find(device).unwrap().mac)
}

/// The Internet checksum (RFC 1071).
fn checksum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let words = all.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b)));
    let sum = words.sum::<u32>();
    let folded = (sum >> 16) + (sum & 0xffff);
    !((folded >> 16) + folded) as u16
}

/// Segment `i` of a TCP flow, from the first site to the second.
fn segment(macs: [[u8; 6]; 2], id: u16, i: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend((40 + PAYLOAD as u16).to_be_bytes());
    ip.extend(id.to_be_bytes());
    ip.extend([0x40, 0, 64, 6, 0, 0, 10, 9, 1, 2, 10, 9, 2, 2]);
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut tcp = vec![0x10, 0, 0x20, 0];
    tcp.extend(((i * PAYLOAD) as u32).to_be_bytes());
    tcp.extend([0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(vec![i as u8; PAYLOAD]);
    let pseudo = [&ip[12..20], &[0, 6], &(tcp.len() as u16).to_be_bytes()[..]].concat();
    let sum = checksum(&[&pseudo, &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    [&macs[0][..], &macs[1], &[8, 0], &ip, &tcp].concat()
}

/// Sends frames as they are.
fn send(namespace: &str, frames: Vec<Vec<u8>>) {
    within(namespace, move || {
        let index = Netdev::find("eth0").unwrap().index as i32;
        // SAFETY: a plain socket and an address that lives through the calls; the descriptor is
        // nobody else's.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
            assert!(fd >= 0);
            let socket = OwnedFd::from_raw_fd(fd);
            let mut to: libc::sockaddr_ll = std::mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = index;
            let len = size_of::<libc::sockaddr_ll>() as u32;
            for frame in frames {
                let (data, to) = (frame.as_ptr().cast(), (&raw const to).cast());
                let n = libc::sendto(socket.as_raw_fd(), data, frame.len(), 0, to, len);
                assert_eq!(n, frame.len() as isize);
            }
        }
    });
}

/// Packets of one ID leave with one ID after GRO merged them, and others with the IDs that they
/// had.
#[test]
fn merged_packets_are_seen_with_the_ids_that_they_leave_with() {
    if !has_root() {
        return;
    }
    let ids: [fn(usize) -> u16; 3] = [|_| 0, |_| 0x1234, |i| 0xfff0_u16.wrapping_add(i as u16)];
    let sites = Sites::new();
    let (a, r) = (&sites.from.0, &sites.router.0);
    run(&format!("ip netns exec {r} ethtool -K fbl gro on"));
    // From where there is TSO a veth expects nothing that GRO could merge.
    run(&format!("ip netns exec {a} ethtool -K eth0 tso off"));
    // A thread of its own finds many packets waiting.
    let threaded = "echo 1 > /sys/class/net/fbl/threaded";
    let mut shell = std::process::Command::new("ip");
    assert!(shell.args(["netns", "exec", r, "sh", "-c", threaded]).status().unwrap().success());
    run(&format!(
        "ip -n {r} neigh replace 10.9.2.2 lladdr 02:00:00:00:00:22 dev fbr nud permanent"
    ));
    namespace::enter(r);
    let mut observer = EgressObserver::attach(&Netdev::find("fbr").unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO)]).unwrap();
    observer.set_key(0, KEY).unwrap();
    observer.set_epoch(0, 1).unwrap();
    let macs = [mac(r, "fbl"), mac(a, "eth0")];
    for id in ids {
        let (sent_before, before) = (sites.sent(r, "fbr"), observer.counts(0).unwrap());
        let frames: Vec<_> = (0..3000).map(|i| segment(macs, id(i), i)).collect();
        let expected: BTreeSet<_> = frames
            .iter()
            .map(|f| match Frame::parse(f) {
                Ok(Frame::Ip(headers)) => fingerprint(f, &headers, &KEY).unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        for some in frames.chunks(100) {
            let counted = observer.counts(0).unwrap().packets;
            send(a, some.to_vec());
            until(|| observer.counts(0).unwrap().packets >= counted + some.len() as u64);
        }
        let seen = Seen::leaving(&mut observer, 0, before);
        let sent = sites.sent(r, "fbr") - sent_before;
        assert!(sent < 2900, "some were merged: {sent}");
        assert_eq!(seen.counts.packets, 3000);
        assert_eq!(seen.counts.bytes.0, 3000 * (40 + PAYLOAD as u64));
        let seen: BTreeSet<_> = seen.samples.iter().map(|sample| sample.fingerprint).collect();
        assert!(seen == expected, "ID {}: {} of {}", id(1), seen.len(), expected.len());
    }
}

/// The loopback device's driver has no XDP.
#[test]
fn where_the_driver_has_no_xdp_a_receivebox_counts_at_tc() {
    if !has_root() {
        return;
    }
    let sites = Sites::new();
    let a = &sites.from.0;
    namespace::enter(a);
    let rule = BundleRule {
        sources: vec![],
        destinations: prefixes(&["127.0.0.0/8"]),
        key: KEY,
        epoch: 1,
    };
    let netdev = Netdev::find("lo").unwrap();
    let mut sampler = Sampler::attach(&netdev, std::slice::from_ref(&rule)).unwrap();
    assert_eq!(sampler.hook(), Hook::Tc);
    let error = Sampler::attach_at(&netdev, &[rule], Hook::Xdp).err().unwrap().to_string();
    assert!(error.starts_with("attaching XDP to `lo`: "), "{error}");
    sites.udp("127.0.0.1:0".parse().unwrap(), 7000..7100, 200, 0);
    let mut samples = 0;
    sampler.poll(|_| samples += 1).unwrap();
    // ICMP answers that nobody listens come back to the same prefix.
    let counts = sampler.counts(0).unwrap();
    assert!(counts.packets >= 100, "{counts:?}");
    assert_eq!(samples, counts.packets);
}

/// Where a driver has frames of 9000 bytes in several buffers, it refuses the program, and the
/// receivebox counts at tc's ingress.
#[test]
fn a_receivebox_counts_jumbo_frames() {
    if !has_root() {
        return;
    }
    const LEN: usize = 1_000_000;
    let sites = Sites::new();
    let (a, r, b) = (&sites.from.0, &sites.router.0, &sites.to.0);
    for (namespace, device) in [(a, "eth0"), (r, "fbl"), (r, "fbr"), (b, "eth0")] {
        run(&format!("ip -n {namespace} link set {device} mtu 9000"));
    }
    namespace::enter(b);
    let rule = BundleRule { sources: vec![], destinations: prefixes(&TO), key: KEY, epoch: 1 };
    let sampler =
        Sampler::attach(&Netdev::find("eth0").unwrap(), std::slice::from_ref(&rule)).unwrap();
    for version in [0, 1] {
        sites.tcp(version, LEN);
    }
    let counts = sampler.counts(0).unwrap();
    assert!(counts.bytes.0 > 2 * LEN as u64, "{counts:?}");
    assert!(counts.bytes.0 / counts.packets > 3_818, "{counts:?}");
}
