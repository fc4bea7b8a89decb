//! Tests `forebay lab interop` between a client and a server. Those of the network need root.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "../../dataplane/tests/namespace/mod.rs"]
mod namespace;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::Dir;
use forebay_test_support::{Need, skip};
use namespace::{Namespace, has_root, run, within};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
/// The longest wait on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses of the client and of the server, IPv4 and IPv6.
const CLIENT: [&str; 2] = ["10.9.6.1", "fd09:6::1"];
const SERVER: [&str; 2] = ["10.9.6.2", "fd09:6::2"];

/// A client, a server and the network between them.
struct Hosts {
    client: Namespace,
    middle: Namespace,
    server: Namespace,
    dir: Dir,
}

impl Hosts {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let [client, middle, server] =
            ["c", "m", "s"].map(|n| Namespace::new(format!("fb-{name}{id}-{n}")));
        for (host, number, port) in [(&client, 1, "eth0"), (&server, 2, "eth1")] {
            let (host, middle) = (&host.0, &middle.0);
            let mac = format!("02:00:00:00:06:0{number}");
            run(&format!(
                "ip -n {host} link add eth0 address {mac} type veth peer name {port} netns {middle}"
            ));
            for (place, device) in [(host, "eth0"), (middle, port)] {
                let offloads = "tso off gso off gro off tx off rx off";
                run(&format!("ip netns exec {place} ethtool -K {device} {offloads}"));
                run(&format!("ip -n {place} link set {device} up"));
            }
            run(&format!("ip -n {host} address add 10.9.6.{number}/24 dev eth0"));
            run(&format!("ip -n {host} address add fd09:6::{number}/64 dev eth0 nodad"));
            // Without ARP, so that a direction works alone.
            let peer = 3 - number;
            for address in [format!("10.9.6.{peer}"), format!("fd09:6::{peer}")] {
                run(&format!(
                    "ip -n {host} neigh add {address} lladdr 02:00:00:00:06:0{peer} dev eth0"
                ));
            }
        }
        Self { client, middle, server, dir: Dir::new(name) }
    }

    /// Puts the hosts into two networks, with addresses of their own in the middle as gateways.
    fn routed(name: &str) -> Self {
        let hosts = Self::new(name);
        for (host, port, net, other) in
            [(&hosts.client, "eth0", 7, 8), (&hosts.server, "eth1", 8, 7)]
        {
            let (host, middle) = (&host.0, &hosts.middle.0);
            run(&format!("ip -n {host} address flush dev eth0 scope global"));
            run(&format!("ip -n {host} neigh flush nud permanent dev eth0"));
            for (place, device, number) in [(host, "eth0", 9), (middle, port, 1)] {
                let address = format!("ip -n {place} address add dev {device}");
                run(&format!("{address} 10.9.{net}.{number}/24"));
                run(&format!("{address} fd09:{net}::{number}/64 nodad"));
            }
            run(&format!("ip -n {host} route add 10.9.{other}.0/24 via 10.9.{net}.1"));
            run(&format!("ip -n {host} route add fd09:{other}::/64 via fd09:{net}::1"));
        }
        hosts
    }

    /// Starts the network with the scenario in its environment.
    fn network(&self, scenario: &str, arguments: &[&str]) -> Network {
        let program = [PROGRAM, "lab", "interop", "--left", "eth0", "--right", "eth1"];
        self.start(&program, scenario, arguments)
    }

    fn start(&self, program: &[&str], scenario: &str, arguments: &[&str]) -> Network {
        let directory = Path::new(PROGRAM).parent().unwrap().display();
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.middle.0])
            .args(program)
            .arg("--counters")
            .arg(self.dir.file("counters", "", 0o644))
            .args(arguments)
            .env("SCENARIO", scenario)
            .env("PATH", format!("{directory}:{}", std::env::var("PATH").unwrap()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Network(child)
    }

    /// Sends `count` datagrams to a host, in small groups so that no buffer on the way is full.
    fn send(from: &Namespace, to: &str, count: usize, pause: Duration) {
        let to: IpAddr = to.parse().unwrap();
        within(&from.0, move || {
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            for n in 0..count {
                // No socket listens there, so later sends may return an ICMP error.
                let _ = socket.send_to(&[0x5a; 1000], (to, 9));
                if n % 10 == 9 {
                    thread::sleep(pause);
                }
            }
        });
    }

    /// The UDP datagrams over IPv4 that a host's kernel has received.
    fn received(host: &Namespace) -> u64 {
        let text = run(&format!("ip netns exec {} cat /proc/net/snmp", host.0));
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let names = lines.next().unwrap().split(' ');
        let values = lines.next().unwrap().split(' ');
        let counted = names.zip(values).filter(|(n, _)| ["InDatagrams", "NoPorts"].contains(n));
        counted.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    }
}

/// The process of the network, which is killed when this value is dropped.
struct Network(Child);

impl Network {
    /// Ends the network in an orderly way, and returns its counters.
    fn end(mut self, hosts: &Hosts) -> Value {
        // SAFETY: takes integers; the process is this test's child, not yet waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) }, 0);
        assert!(self.0.wait().unwrap().success());
        let text = std::fs::read_to_string(hosts.dir.0.join("counters")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Downloads `len` bytes from the server, and returns the time that it took.
fn download(hosts: &Hosts, server: &str, len: usize) -> Duration {
    let address: IpAddr = server.parse().unwrap();
    let listener = within(&hosts.server.0, move || TcpListener::bind((address, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..len).map(|i| ((i * 31) >> 4) as u8).collect();
    let copy = sent.clone();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&copy).unwrap();
    });
    let (all, took) = within(&hosts.client.0, move || {
        let begin = Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        (all, begin.elapsed())
    });
    server.join().unwrap();
    assert!(all == sent, "it is what was sent");
    took
}

#[test]
fn the_delay_and_the_rate_hold_in_both_ip_versions_with_every_kind_of_queue() {
    if !has_root() {
        return skip(Need::Root, "network namespaces");
    }
    let hosts = Hosts::new("iop");
    for policy in ["fifo", "fq_codel", "dualpi2"] {
        let scenario = "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=100";
        let network = hosts.network(scenario, &["--policy", policy]);
        for server in SERVER {
            // A kernel and a process cannot be faster than the wire, whatever else runs here: a
            // handshake, a round trip, and the time of the data at 10 Mbit/s.
            let took = download(&hosts, server, 500_000);
            assert!(took > Duration::from_millis(2 * 30 + 400), "{policy}: {took:?}");
            assert!(took < Duration::from_secs(20), "{policy}: far below the rate: {took:?}");
        }
        let counters = network.end(&hosts);
        assert_eq!(counters["lost"], 0, "{policy}: {counters}");
    }
}

#[test]
fn the_start_script_of_the_container_routes_between_two_networks() {
    if !has_root() {
        return skip(Need::Root, "network namespaces");
    }
    let hosts = Hosts::routed("iopr");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/interop/start");
    let scenario = "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=100";
    let network = hosts.start(&[script], scenario, &["--policy", "fq_codel"]);
    for server in ["10.9.8.9", "fd09:8::9"] {
        let took = download(&hosts, server, 500_000);
        assert!(took > Duration::from_millis(2 * 30 + 400), "{took:?}");
    }
    let counters = network.end(&hosts);
    assert!(counters["sent"].as_u64().unwrap() > 700, "all packets pass the link: {counters}");
}

#[test]
fn a_full_queue_drops() {
    if !has_root() {
        return skip(Need::Root, "network namespaces");
    }
    let hosts = Hosts::new("iopq");
    // A packet takes 8 s, so only the queue and the wire hold some.
    let network = hosts.network("simple-p2p --delay=1ms --bandwidth=1kbps --queue=25", &[]);
    Hosts::send(&hosts.client, SERVER[0], 40, Duration::from_millis(1));
    Hosts::send(&hosts.server, CLIENT[0], 40, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(300));
    let counters = network.end(&hosts);
    let drops = counters["policy_drops"].as_u64().unwrap();
    // Of 40 in each direction, 25 wait and one is on the wire; neighbour discovery may add some.
    assert!((20..=40).contains(&drops), "{counters}");
    assert_eq!(Hosts::received(&hosts.server), 0);
}

#[test]
fn packets_are_dropped_at_the_rates_of_the_scenario() {
    if !has_root() {
        return skip(Need::Root, "network namespaces");
    }
    let hosts = Hosts::new("iopd");
    let scenario = "drop-rate --delay=1ms --bandwidth=1Gbps --queue=3000 --rate_to_client=10 \
                    --rate_to_server=30 --burst_to_client=1000 --burst_to_server=1000";
    let network = hosts.network(scenario, &[]);
    Hosts::send(&hosts.client, SERVER[0], 2000, Duration::from_millis(1));
    Hosts::send(&hosts.server, CLIENT[0], 2000, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(300));
    network.end(&hosts);
    // Five standard deviations of a binomial distribution.
    let (at_server, at_client) = (Hosts::received(&hosts.server), Hosts::received(&hosts.client));
    assert!(at_server.abs_diff(1400) < 103, "{at_server} of 2000 with 30 % dropped");
    assert!(at_client.abs_diff(1800) < 68, "{at_client} of 2000 with 10 % dropped");
}

#[test]
fn a_black_hole_swallows_one_direction() {
    if !has_root() {
        return skip(Need::Root, "network namespaces");
    }
    let hosts = Hosts::new("iopb");
    let scenario = "blackhole --delay=1ms --bandwidth=100Mbps --queue=100 --on=0s --off=1h \
                    --direction=toserver";
    let network = hosts.network(scenario, &[]);
    Hosts::send(&hosts.client, SERVER[0], 50, Duration::from_millis(1));
    Hosts::send(&hosts.server, CLIENT[0], 50, Duration::from_millis(1));
    thread::sleep(Duration::from_millis(300));
    network.end(&hosts);
    assert_eq!(Hosts::received(&hosts.server), 0);
    assert_eq!(Hosts::received(&hosts.client), 50);
}

#[test]
fn mistakes_are_one_line_and_exit_with_2() {
    let run = |scenario: &str, arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["lab", "interop"]).args(arguments).env("SCENARIO", scenario);
        let out = command.stdin(Stdio::null()).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    for (scenario, says) in [
        ("", "no scenario: write it in the variable SCENARIO"),
        ("simple-p2p --delay=15ms", "--bandwidth is missing"),
        ("rebind --first-rebind=1s", "scenario `rebind` is not supported"),
        ("tcp-cross-traffic --delay=15ms", "nothing here makes traffic"),
    ] {
        let (code, text) = run(scenario, &[]);
        assert!(code == Some(2) && text.contains(says) && text.lines().count() == 1, "{text}");
    }
    // An argument comes before the variable.
    let (code, text) = run("simple-p2p --delay=15ms", &["nothing"]);
    assert!(code == Some(2) && text.contains("unknown scenario `nothing`"), "{text}");
    let (code, text) = run("", &["--policy", "cake"]);
    assert!(code == Some(2) && text.contains("there are fifo, sfq, fq_codel"), "{text}");
}
