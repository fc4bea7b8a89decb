//! Tests `forebay link` between two hosts: forwarding, marks, counters, and what remains when it
//! crashes. No test judges how long something took. They need root.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "../../dataplane/tests/namespace/mod.rs"]
mod namespace;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Dir;
use forebay_lab::analysis::Analysis;
use forebay_lab::results::store;
use forebay_test_support::{Need, skip};
use namespace::{Namespace, has_root, run, within};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
/// The longest wait for a write on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses of the second host, IPv4 and IPv6.
const TO: [&str; 2] = ["10.9.5.2", "fd09:5::2"];
const ECT1: i32 = 1;
const NOT_ECT: i32 = 0;
/// The traffic class of expedited forwarding (RFC 3246), without ECN.
const EF: i32 = 46 << 2;

/// Two hosts and the box between them.
struct Hosts {
    from: Namespace,
    middle: Namespace,
    to: Namespace,
    dir: Dir,
}

impl Hosts {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let [from, middle, to] =
            ["a", "m", "b"].map(|n| Namespace::new(format!("fb-{name}{id}-{n}")));
        for (host, number, port) in [(&from, 1, "fb-in"), (&to, 2, "fb-out")] {
            let (host, middle) = (&host.0, &middle.0);
            run(&format!("ip -n {host} link add eth0 type veth peer name {port} netns {middle}"));
            // A veth accepts the frames that a crashed box redirects only if its peer has GRO on.
            for (place, device, gro) in [(host, "eth0", "on"), (middle, port, "off")] {
                let offloads = format!("tso off gso off gro {gro} tx off rx off");
                run(&format!("ip netns exec {place} ethtool -K {device} {offloads}"));
                run(&format!("ip -n {place} link set {device} up"));
            }
            run(&format!("ip -n {host} address add 10.9.5.{number}/24 dev eth0"));
            run(&format!("ip -n {host} address add fd09:5::{number}/64 dev eth0 nodad"));
        }
        Self { from, middle, to, dir: Dir::new(name) }
    }

    /// Starts a link with this configuration and waits until it forwards.
    fn link(&self, more: &str) -> Process {
        let text = format!("[link]\ninside = \"fb-in\"\noutside = \"fb-out\"\n{more}");
        let file = self.dir.file("link.toml", &text, 0o644);
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.middle.0, PROGRAM, "link", "--config"])
            .arg(file)
            .arg("--statistics")
            .arg(self.dir.0.join("statistics"))
            .arg("--counters")
            .arg(self.dir.0.join("counters"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Process(child)
    }

    /// Sends `len` bytes by TCP over this IP version.
    fn transfer(&self, version: usize, len: usize) {
        let to: IpAddr = TO[version].parse().unwrap();
        let listener = within(&self.to.0, move || TcpListener::bind((to, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all
        });
        let sent: Vec<u8> = (0..len).map(|i| ((i * 31) >> 4) as u8).collect();
        let copy = sent.clone();
        within(&self.from.0, move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&copy).unwrap();
        });
        assert!(reader.join().unwrap() == sent, "it is what was sent");
    }

    /// Sends a burst of `count` datagrams with this ECN field.
    fn datagrams(&self, version: usize, count: usize, ecn: i32) {
        self.datagrams_to(TO[version], count, ecn);
    }

    /// Sends a burst of `count` datagrams with this traffic class (DSCP and ECN field).
    fn datagrams_to(&self, to: &str, count: usize, ecn: i32) {
        let to: SocketAddr = (to.parse::<IpAddr>().unwrap(), 9).into();
        within(&self.from.0, move || {
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            let (level, name) = match to {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            // SAFETY: the option's value is an int that lives through the call.
            let rc = unsafe {
                libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const ecn).cast(), 4)
            };
            assert_eq!(rc, 0);
            for _ in 0..count {
                // No socket listens there, so later sends may return an ICMP error.
                let _ = socket.send_to(&[0x5a; 1200], to);
            }
        });
    }

    /// Sends a burst of `count` frames of this VLAN, each with a UDP packet without ECN that no
    /// socket receives.
    fn tagged(&self, vlan: u16, count: usize) {
        const UDP: [u8; 22] =
            [0x08, 0, 0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 7, 1, 10, 9, 7, 2];
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x81, 0];
        frame.extend(vlan.to_be_bytes());
        frame.extend(UDP);
        frame.resize(14 + 4 + 128, 0);
        within(&self.from.0, move || {
            // SAFETY: takes integers and a C string; the descriptor is checked and owned by this
            // thread; an address of all zeros is a valid value.
            let (socket, index, mut to): (_, _, libc::sockaddr_ll) = unsafe {
                let number = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
                assert!(number >= 0, "{}", std::io::Error::last_os_error());
                let index = libc::if_nametoindex(c"eth0".as_ptr());
                (OwnedFd::from_raw_fd(number), index, std::mem::zeroed())
            };
            (to.sll_family, to.sll_ifindex) = (libc::AF_PACKET as u16, index as i32);
            for _ in 0..count {
                // SAFETY: frame and address live through the call and have the given lengths.
                let sent = unsafe {
                    libc::sendto(
                        socket.as_raw_fd(),
                        frame.as_ptr().cast(),
                        frame.len(),
                        0,
                        (&raw const to).cast(),
                        size_of_val(&to) as libc::socklen_t,
                    )
                };
                assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
            }
        });
    }

    /// The receiver's kernel counter of this name, IPv4 and IPv6 together.
    fn received(&self, name: &str) -> u64 {
        let read = |file: &str| run(&format!("ip netns exec {} cat /proc/net/{file}", self.to.0));
        let v6: u64 = read("snmp6")
            .lines()
            .filter_map(|line| {
                line.strip_prefix("Ip6")?.strip_prefix(name)?.trim().parse::<u64>().ok()
            })
            .sum();
        let text = read("netstat");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
        let names = lines.next().unwrap().split(' ');
        let values = lines.next().unwrap().split(' ');
        let v4 = names.zip(values).find(|(n, _)| *n == name).unwrap().1.parse::<u64>().unwrap();
        v4 + v6
    }

    /// The last statistics of a direction.
    fn total(&self, direction: &str) -> Value {
        let text = fs::read_to_string(self.dir.0.join("statistics")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut totals = lines.filter(|l| l["kind"] == "total" && l["direction"] == direction);
        totals.next().unwrap()
    }
}

/// A process that ends when this value is dropped.
struct Process(Child);

impl Process {
    fn signal(&mut self, signal: i32) {
        // SAFETY: takes integers; the process is this test's child, not yet waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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

const SENDERS: &str = r#"name = "senders"
duration = "2 s"
warmup = "1 s"
path = { rate = "50 Mbit/s", rtt = "10 ms", queue = { kind = "fifo", limit = "500 packets" } }
[[traffic]]
name = "scalable"
kind = "bulk"
congestion = "dctcp"
ecn = "ect1"
[[traffic]]
name = "prague"
kind = "bulk"
transport = "udp"
congestion = "prague"
[[traffic]]
name = "cubic"
kind = "bulk"
[[arm]]
name = "dualpi2"
link = { rate = "20 Mbit/s", policy = "dualpi2", limit = "1000 packets" }
"#;

/// Real scalable senders, DCTCP and Prague over UDP, send ECT(1) data beside Cubic, over both IP
/// versions.
#[test]
fn real_senders_use_both_queues() {
    if !has_root() {
        return;
    }
    for ip in [4, 6] {
        let dir = Dir::new(&format!("link-senders{ip}"));
        let file = dir.file("senders.toml", &format!("ip = {ip}\n{SENDERS}"), 0o644);
        let mut lab = Command::new(PROGRAM);
        let output = lab.args(["lab", "run"]).arg(file).arg("--out").arg(&dir.0).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && said.contains("no DCTCP here") {
            skip(Need::Kernel, &said);
            return;
        }
        assert!(output.status.success(), "{said}");
        let kept = store::files(&dir.0).unwrap();
        let run = store::load(&kept[0]).unwrap();
        let summary = Analysis::of(&run).summary;
        let none: [String; 0] = [];
        assert_eq!(summary.conservation.violations, none);
        let of = |traffic: &str| summary.goodput_by_traffic_mbps[traffic];
        for traffic in ["scalable", "prague", "cubic"] {
            assert!(of(traffic) > 1.0, "{summary:?}");
        }
        let by = summary.l4s.unwrap();
        let [l, c] = [by.sendbox_l4s_ms, by.sendbox_classic_ms].map(|d| d.unwrap().packets);
        assert!(l > 100 && c > 100, "{l} and {c} packets");
        let hop = summary.hops.iter().find(|hop| hop.hop == "sendbox").unwrap();
        assert!(hop.marked.unwrap() > 0, "{hop:?}");
    }
}

/// Checks the path to the second host over `version`. Returns the exit status and the report.
fn l4s_check(hosts: &Hosts, version: usize) -> (Option<i32>, Value) {
    let mut reflector = Command::new("ip")
        .args(["netns", "exec", &hosts.to.0, PROGRAM, "l4s", "reflect"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(reflector.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    let _reflector = Process(reflector);
    let checked = Command::new("ip")
        .args(["netns", "exec", &hosts.from.0, PROGRAM, "l4s", "check", TO[version], "--json"])
        .output()
        .unwrap();
    let report = serde_json::from_slice(&checked.stdout).unwrap();
    (checked.status.code(), report)
}

/// Which faults there are. The delays of a loaded machine may add some, so what matters here is
/// which of them are there at least, and which cannot be.
fn faults(report: &Value) -> Vec<&str> {
    let found = report["findings"].as_array().unwrap().iter();
    found.map(|f| f["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_check_of_l4s_tells_dualpi2_from_a_queue_that_drops() {
    if !has_root() {
        return skip(Need::Root, "a check of L4S tells DualPI2 from a queue that drops");
    }
    for version in [0, 1] {
        let hosts = Hosts::new("l4s");
        let link = hosts.link("rate = \"20 Mbit/s\"\n");
        let (_, report) = l4s_check(&hosts, version);
        let found = faults(&report);
        for wrong in ["unreachable", "ect1_rewritten", "ce_erased", "shared_queue", "unmarked"] {
            assert!(!found.contains(&wrong), "{report:#}");
        }
        assert!(report["loads"][2]["l4s"]["marked"].as_f64().unwrap() > 0.5, "{report:#}");
        drop(link);

        let _link = hosts.link("rate = \"20 Mbit/s\"\npolicy = \"fifo\"\n");
        let (status, report) = l4s_check(&hosts, version);
        let found = faults(&report);
        assert!(found.contains(&"shared_queue") && found.contains(&"unmarked"), "{report:#}");
        assert_eq!(status, Some(1));
    }
}
