//! Two sites that are joined by a tunnel: `forebay site` runs at the tunnel's devices, and controls
//! both directions.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use forebay_records::Status;
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_test_support::tun::{Carrier, Tun};
use forebay_test_support::{Need, skip};

use crate::support::process::{self, Process};
use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// The bytes of a tunnel's packets at most: the outer headers fit into the path's frames.
const MTU: usize = 1_400;

/// Gives the tunnel's ends their addresses, and routes for the hosts of both sites.
fn address(sites: &Sites, device: &str) {
    // The branch's host is the branch itself, at an address among those that the head expects.
    run(&format!("ip -n {} address add 10.8.2.2/32 dev {device}", sites.to.0));
    for (place, address, hosts) in [
        (&sites.router, "10.8.0.1/24", "10.8.2.0/24"),
        (&sites.to, "10.8.0.2/24", "10.9.1.0/24 src 10.8.2.2"),
    ] {
        let place = &place.0;
        run(&format!("ip -n {place} address add {address} dev {device}"));
        run(&format!("ip -n {place} link set {device} mtu {MTU} up"));
        let (net, source) = hosts.split_once(' ').unwrap_or((hosts, ""));
        let route = format!("ip -n {place} route replace {net} dev {device} {source}");
        run(route.trim_end());
    }
}

/// Writes the files of both sites, and starts their processes.
fn start(sites: &Sites, device: &str) -> [Process; 2] {
    let made = Command::new(PROGRAM)
        .args(["site", "init", "--directory"])
        .arg(&sites.dir.0)
        .args(["--site", "head", device, "10.8.0.1", "10.9.1.0/24"])
        .args(["--site", "branch", device, "10.8.0.2", "10.8.2.0/24"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    [(&sites.router, "head"), (&sites.to, "branch")].map(|(place, name)| {
        let file = sites.dir.0.join(name).join("site.toml");
        let file = file.to_str().unwrap();
        let check = format!("ip netns exec {} {PROGRAM} check {file}", place.0);
        run(&check);
        let doctor = format!("ip netns exec {} {PROGRAM} doctor --config {file}", place.0);
        let words: Vec<_> = doctor.split(' ').collect();
        let said = Command::new(words[0]).args(&words[1..]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("no Ethernet header, as in a tunnel"), "{said}");
        assert!(said.contains("a receivebox counts at tc's ingress here"), "{said}");
        let log = sites.dir.0.join(format!("{name}.log"));
        process::start(place, &["site", "--config", file], &log)
    })
}

fn status(place: &Namespace) -> Status {
    let json = run(&format!("ip netns exec {} {PROGRAM} status --json", place.0));
    let mut all: Vec<Status> = serde_json::from_str(&json).unwrap();
    assert_eq!(all.len(), 1, "one process: {json}");
    all.remove(0)
}

/// What left one site and arrived at the other: packets and bytes.
fn counts(sites: &Sites) -> [(u64, u64); 2] {
    let (head, branch) = (status(&sites.router), status(&sites.to));
    let (sent, received) = (&head.sends[0], &branch.receives[0]);
    [(sent.packets, sent.bytes), (received.packets, received.bytes)]
}

/// Both directions are controlled, and both ends count the same.
fn check(sites: &Sites, device: &str) {
    let [mut head, mut branch] = start(sites, device);
    let there = Transfers::start(sites, "10.8.2.2", FILLING);
    let back = Transfers::between(&sites.to, &sites.from, "10.9.1.2", FILLING);
    let log = |name: &str| fs::read_to_string(sites.dir.0.join(format!("{name}.log"))).unwrap();
    for (name, other) in [("head", "branch"), ("branch", "head")] {
        until(&format!("{name} measures the way to {other}"), || {
            log(name).contains(&format!("bundle {other}: mode open -> "))
        });
    }
    // The bottleneck of 24 Mbit/s carries the outer headers, too.
    let limit = || status(&sites.router).sends[0].rate_bps;
    until("the rate is near the link's", || {
        limit().is_some_and(|bps| (10_000_000..24_000_000).contains(&bps))
    });
    there.go_on();
    back.go_on();
    there.end();
    back.end();
    for (place, other) in [(&sites.router, "branch"), (&sites.to, "head")] {
        let status = status(place);
        let ([send], [receive]) = (status.sends.as_slice(), status.receives.as_slice()) else {
            panic!("one peer in both directions: {status:?}")
        };
        assert_eq!((send.name.as_str(), receive.name.as_str()), (other, other));
        assert!(send.measurements > 0 && send.rtt_ms > Some(40.0), "{status:?}");
        assert_eq!((&send.trouble, &receive.trouble), (&None, &None), "{status:?}");
        assert_eq!((status.not_understood.left, status.not_understood.arrived), (0, 0));
    }
    same_bytes(sites);
    for process in [&mut head, &mut branch] {
        process.signal(libc::SIGTERM);
    }
}

/// Returns the counts of both ends when nothing is under way.
fn settled_counts(sites: &Sites) -> [(u64, u64); 2] {
    let mut now = counts(sites);
    until("nothing is under way", || {
        let last = std::mem::replace(&mut now, counts(sites));
        std::thread::sleep(std::time::Duration::from_millis(200));
        last == now
    });
    now
}

/// Datagrams of many lengths, far fewer than the path holds, have the same bytes at both ends.
///
/// A packet that the program below the queues misses counts with the mean of the bundle's bytes
/// (`docs/decisions/0094-packets-that-no-tracepoint-sees.md`). So one round of many must be exact.
fn same_bytes(sites: &Sites) {
    let lengths = || (0..1_300).step_by(13);
    let bytes = lengths().map(|len| 28 + len as u64).sum::<u64>();
    until("a round has the same bytes at both ends", || {
        let before = settled_counts(sites);
        within(&sites.from.0, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for len in lengths() {
                let _ = socket.send_to(&vec![0xa5; len], "10.8.2.2:4000");
            }
        });
        let expected = before.map(|(n, all)| (n + lengths().count() as u64, all + bytes));
        let counted = settled_counts(sites);
        if counted != expected {
            eprintln!("sent and received {counted:?}, not {expected:?}");
        }
        counted == expected
    });
}

#[test]
fn two_sites_are_controlled_through_a_tunnel() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("ku");
    sites.stop_receivebox();
    let ends = [(&sites.router, "10.9.9.1", "10.9.9.2"), (&sites.to, "10.9.9.2", "10.9.9.1")];
    let mut carrier = Carrier::default();
    let _devices = ends.map(|(place, here, there)| {
        let device = Tun::new(place, "tun0", false);
        let socket = within(&place.0, move || {
            let socket = UdpSocket::bind((here, 5_000)).unwrap();
            socket.connect((there, 5_000)).unwrap();
            socket
        });
        let out = socket.try_clone().unwrap();
        // A datagram that does not fit anywhere is lost, as in any tunnel.
        carrier.carry(&device, move |packet| drop(out.send(packet)));
        carrier.unpack(socket, &device);
        device
    });
    address(&sites, "tun0");
    check(&sites, "tun0");
}

/// A program that makes a WireGuard device in user space, and ends with this value.
struct WireGuard(Option<Child>);

impl Drop for WireGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl WireGuard {
    /// Makes the device `name` in a namespace: the kernel's, or that of `wireguard-go`.
    fn new(place: &Namespace, name: &str) -> Result<Self, String> {
        let words = ["-n", &place.0, "link", "add", name, "type", "wireguard"];
        let kernel = Command::new("ip").args(words).stderr(Stdio::null()).status().unwrap();
        if kernel.success() {
            return Ok(Self(None));
        }
        let child = Command::new("ip")
            .args(["netns", "exec", &place.0, "wireguard-go", "--foreground", name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut device = Self(Some(child.map_err(|e| e.to_string())?));
        let child = device.0.as_mut().unwrap();
        let socket = format!("/var/run/wireguard/{name}.sock");
        until("WireGuard's socket, or its end", || {
            std::path::Path::new(&socket).exists() || child.try_wait().unwrap().is_some()
        });
        match child.try_wait().unwrap() {
            None => Ok(device),
            Some(_) => {
                Err("the kernel has no WireGuard, and wireguard-go did not start".to_owned())
            }
        }
    }
}

/// Runs `wg` with this input in a namespace.
fn wg(place: &Namespace, words: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new("ip")
        .args(["netns", "exec", &place.0, "wg"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that is not there reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let out = child.wait_with_output().unwrap();
    match out.status.success() {
        true => Ok(String::from_utf8(out.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
    }
}

#[test]
fn two_sites_are_controlled_through_wireguard() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kg");
    sites.stop_receivebox();
    let ends = [(&sites.router, "10.9.9.1"), (&sites.to, "10.9.9.2")];
    // The socket of a device in user space is a file with its name, which all namespaces share.
    let devices = [0, 1].map(|end| format!("fbw{}{end}", std::process::id() % 1_000_000));
    let keys: Result<Vec<_>, _> = ends
        .iter()
        .map(|(place, _)| {
            let private = wg(place, &["genkey"], "")?;
            Ok::<_, String>((wg(place, &["pubkey"], &private)?, private))
        })
        .collect();
    let keys = match keys {
        Ok(keys) => keys,
        Err(why) => return skip(Need::Program, &format!("wg (wireguard-tools): {why}")),
    };
    let mut made = Vec::new();
    for ((place, _), device) in ends.iter().zip(&devices) {
        match WireGuard::new(place, device) {
            Ok(wireguard) => made.push(wireguard),
            Err(why) => return skip(Need::Program, &format!("WireGuard: {why}")),
        }
    }
    for (end, (place, _)) in ends.iter().enumerate() {
        let (there, (_, private)) = (1 - end, &keys[end]);
        let endpoint = format!("{}:51820", ends[there].1);
        let words = ["set", &devices[end], "listen-port", "51820", "private-key", "/dev/stdin"];
        let peer = ["peer", &keys[there].0, "endpoint", &endpoint, "allowed-ips", "10.8.0.0/15"];
        wg(place, &[&words[..], &peer].concat(), private).unwrap();
        run(&format!("ip -n {} link set {} name wg0", place.0, devices[end]));
    }
    address(&sites, "wg0");
    check(&sites, "wg0");
}
