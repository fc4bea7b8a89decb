//! Every program on every kind of device, with packets. `scripts/test-kernels` runs this test on
//! other kernels and makes a table of its output.

use std::process::{Command, Stdio};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::senders::{CongestionControl, send_ect1};
use forebay_dataplane::{
    Counts, Error, Hook, Method, Netdev, Pool, Sampler, open_ports, try_bypass,
};
use forebay_test_support::namespace::{self, Namespace, run};
use forebay_test_support::tun::{Carrier, Tun};
use forebay_test_support::{Dir, has_root};
use libbpf_rs::query::ProgInfoIter;

use crate::egress::filter_on;
use crate::seen::{Comparison, Seen};
use crate::sites::{ASIDE, KEY, TO, prefixes, settle};
use crate::tunnel::{address, ends, rule, traffic};

/// The device at each end.
const DEVICE: &str = "fb-dev";

/// Verified instructions that no program may exceed. The kernel's limit is a million, and the next
/// kernel may need twice as many.
const MAX_INSTRUCTIONS: u32 = 500_000;

/// Prints a row of the table: the device, the program, the packets that it saw.
fn row(device: &str, program: &str, packets: Option<u64>) {
    let ours = ProgInfoIter::default().filter(|p| p.name == program);
    let instructions = ours.max_by_key(|p| p.id).map_or(0, |p| p.verified_insns);
    let packets = packets.map_or("-".to_owned(), |n| n.to_string());
    println!("row: {device}, {program}, {packets}, {instructions}");
    assert!(instructions <= MAX_INSTRUCTIONS, "{device}, {program}: {instructions} instructions");
}

/// Runs a command of a shell in a namespace. Returns whether it succeeded.
fn shell(namespace: &Namespace, command: &str) -> bool {
    let arguments = ["netns", "exec", &namespace.0, "sh", "-c", command];
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().unwrap().success()
}

/// Connects two namespaces by Ethernet, over which tunnels go.
fn add_underlay(a: &Namespace, b: &Namespace) {
    run(&format!("ip -n {} link add fb-under type veth peer name fb-under netns {}", a.0, b.0));
    for (end, host) in [(a, 1), (b, 2)] {
        run(&format!("ip -n {} address add 192.0.2.{host}/24 dev fb-under", end.0));
        run(&format!("ip -n {} link set fb-under up", end.0));
    }
}

/// Makes both ends of a WireGuard tunnel. Returns whether this machine has WireGuard.
fn add_wireguard(a: &Namespace, b: &Namespace) -> bool {
    add_underlay(a, b);
    let add = format!("ip link add {DEVICE} type wireguard && wg genkey > key && wg pubkey < key");
    let dir = Dir::new("wireguard");
    let keys = dir.0.display();
    for (end, name) in [(a, "a"), (b, "b")] {
        if !shell(end, &format!("cd {keys} && mkdir {name} && cd {name} && {add} > public")) {
            return false;
        }
    }
    for (end, name, other, peer) in [(a, "a", "b", 2), (b, "b", "a", 1)] {
        let set = format!(
            "cd {keys} && wg set {DEVICE} listen-port 51820 private-key {name}/key peer \
             $(cat {other}/public) allowed-ips 0.0.0.0/0,::/0 endpoint 192.0.2.{peer}:51820"
        );
        assert!(shell(end, &set), "{set}");
    }
    true
}

/// Makes both ends of a GRE tunnel. Returns whether this machine has GRE.
fn add_gre(a: &Namespace, b: &Namespace) -> bool {
    add_underlay(a, b);
    [(a, 1, 2), (b, 2, 1)].iter().all(|(end, here, there)| {
        let add = format!("link add {DEVICE} type gre local 192.0.2.{here} remote 192.0.2.{there}");
        let mut ip = Command::new("ip");
        ip.args(["-n", &end.0]).args(add.split(' ')).stderr(Stdio::null());
        ip.status().unwrap().success()
    })
}

/// Sends packets from one end to the other and compares what each program saw of them.
fn compare(device: &str, [a, b]: &[Namespace; 2], hooks: &[Hook]) {
    for (end, here, there) in [(a, 1, 2), (b, 2, 1)] {
        run(&format!("ip -n {} link set {DEVICE} up", end.0));
        address(end, DEVICE, here, there);
    }
    run(&format!("ip -n {} route add {ASIDE} dev {DEVICE}", a.0));
    // Neighbours and sessions are found before anything is counted.
    settle(a, b);
    namespace::enter(&b.0);
    let netdev = Netdev::find(DEVICE).unwrap();
    let attach = |hook: &Hook| Sampler::attach_at(&netdev, &[rule()], *hook).unwrap();
    let mut samplers: Vec<_> = hooks.iter().map(attach).collect();
    namespace::enter(&a.0);
    let mut observer = EgressObserver::attach(&Netdev::find(DEVICE).unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO)]).unwrap();
    observer.set_key(0, KEY).unwrap();
    observer.set_epoch(0, 1).unwrap();
    run(&format!("tc -n {} qdisc add dev {DEVICE} root handle fb0: htb", a.0));
    let shape = "rate 32gbit burst 10mb cburst 10mb quantum 3028";
    run(&format!("tc -n {} class add dev {DEVICE} parent fb0: classid fb0:1 htb {shape}", a.0));
    filter_on(a, DEVICE, &observer);
    traffic(a, b);
    settle(a, b);
    let left = Seen::leaving(&mut observer, 0, Counts::default());
    assert!(left.counts.packets > 1500, "{device}: {:?}", left.counts);
    row(device, "fb_classify", Some(left.counts.packets));
    row(device, "fb_egress", Some(left.counts.packets));
    for (hook, sampler) in hooks.iter().zip(&mut samplers) {
        let arrived = Seen::arriving(sampler, Counts::default());
        let mut comparison = Comparison::with_missed();
        comparison.add(device, &left, &arrived);
        comparison.check();
        let program = if *hook == Hook::Xdp { "fb_receivebox" } else { "fb_ingress" };
        row(device, program, Some(arrived.counts.packets));
    }
}

#[test]
fn every_kind_of_device_has_every_program() {
    if !has_root() {
        return;
    }
    let [a, b] = ends();
    run(&format!("ip -n {} link add {DEVICE} type veth peer name {DEVICE} netns {}", a.0, b.0));
    compare("Ethernet", &[a, b], &[Hook::Xdp, Hook::Tc]);

    let [a, b] = ends();
    let (one, other) = (Tun::new(&a, DEVICE, false), Tun::new(&b, DEVICE, false));
    let mut carrier = Carrier::default();
    carrier.join(&one, &other);
    compare("TUN", &[a, b], &[Hook::Tc]);

    type Add = fn(&Namespace, &Namespace) -> bool;
    for (device, add) in [("WireGuard", add_wireguard as Add), ("GRE", add_gre)] {
        let [a, b] = ends();
        if add(&a, &b) {
            compare(device, &[a, b], &[Hook::Tc]);
        }
    }
}

/// The programs that are on Ethernet devices only, and those of senders. Other tests pass packets
/// through them.
#[test]
fn other_programs_are_loaded() {
    if !has_root() {
        return;
    }
    let [a, b] = ends();
    run(&format!("ip -n {} link add {DEVICE} type veth peer name {DEVICE} netns {}", a.0, b.0));
    for end in [&a, &b] {
        run(&format!("ip -n {} link set {DEVICE} up", end.0));
    }
    namespace::enter(&a.0);
    let netdev = Netdev::find(DEVICE).unwrap();
    let mut pool = Pool::new(16, netdev.mtu).unwrap();
    let ports = open_ports(std::slice::from_ref(&netdev), Method::Xdp, &mut pool).unwrap();
    row("Ethernet", "fb_port", None);
    drop(ports);
    try_bypass(&netdev).unwrap();
    row("Ethernet", "fb_bypass", None);
    send_ect1(&netdev).unwrap();
    row("Ethernet", "fb_ect1", None);
    // Kernels before Linux 6.4 have no congestion controls as programs of this form, and few have
    // accurate ECN.
    for (name, control) in
        [("dctcp", CongestionControl::dctcp("kt")), ("prague", CongestionControl::prague("kt"))]
    {
        match control {
            Ok(_) => println!("row: any, {name}, -, -"),
            Err(Error::Verifier { reason, .. }) => println!("refused: {name}: {reason}"),
            Err(e) => println!("refused: {name}: {e}"),
        }
    }
}
