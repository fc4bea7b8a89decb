//! A client, a server and `forebay lab interop` between them.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_records::HopCounters;
use forebay_test_support::Dir;
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_test_support::process::{HANG_TIMEOUT, Process, until};

use super::PROGRAM;

/// Addresses of the client and of the server, IPv4 and IPv6.
pub(crate) const CLIENT: [&str; 2] = ["10.9.6.1", "fd09:6::1"];
pub(crate) const SERVER: [&str; 2] = ["10.9.6.2", "fd09:6::2"];

/// A client, a server and the network between them.
pub(crate) struct Hosts {
    pub(crate) client: Namespace,
    middle: Namespace,
    pub(crate) server: Namespace,
    dir: Dir,
}

impl Hosts {
    pub(crate) fn new(name: &str) -> Self {
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
    pub(crate) fn routed(name: &str) -> Self {
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
    pub(crate) fn network(&self, scenario: &str, arguments: &[&str]) -> Network {
        let program = [PROGRAM, "interop", "--left", "eth0", "--right", "eth1"];
        self.start(&program, scenario, arguments)
    }

    pub(crate) fn start(&self, program: &[&str], scenario: &str, arguments: &[&str]) -> Network {
        let directory = Path::new(PROGRAM).parent().unwrap().display();
        let process = Process::start_ready(
            Command::new("ip")
                .args(["netns", "exec", &self.middle.0])
                .args(program)
                .arg("--counters")
                .arg(self.dir.file("counters", "", 0o644))
                .args(arguments)
                .env("SCENARIO", scenario)
                .env("PATH", format!("{directory}:{}", std::env::var("PATH").unwrap()))
                .stdin(Stdio::null()),
        );
        Network(process)
    }

    /// Sends `count` datagrams to a host, in small groups so that no buffer on the way is full.
    pub(crate) fn send(from: &Namespace, to: &str, count: usize) {
        let to: IpAddr = to.parse().unwrap();
        within(&from.0, move || {
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            for n in 0..count {
                // No socket listens there, so later sends may return an ICMP error.
                let _ = socket.send_to(&[0x5a; 1000], (to, 9));
                if n % 10 == 9 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }

    /// The UDP datagrams over IPv4 that a host's kernel has received.
    pub(crate) fn received(host: &Namespace) -> u64 {
        let text = run(&format!("ip netns exec {} cat /proc/net/snmp", host.0));
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let names = lines.next().unwrap().split(' ');
        let values = lines.next().unwrap().split(' ');
        let counted = names.zip(values).filter(|(n, _)| ["InDatagrams", "NoPorts"].contains(n));
        counted.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    }
}

/// The process of the network, which is killed when this value is dropped.
pub(crate) struct Network(Process);

impl Network {
    /// Waits until the network has taken in everything that was sent, and waits itself.
    pub(crate) fn wait_until_idle(&self) {
        let mut looks = 0;
        until("the network is idle", || {
            looks = if self.0.state() == 'S' { looks + 1 } else { 0 };
            looks == 5
        });
    }

    /// Ends the network in an orderly way, and returns its counters.
    pub(crate) fn end(mut self, hosts: &Hosts) -> HopCounters {
        assert_eq!(self.0.signal(libc::SIGTERM), Some(0));
        let text = std::fs::read_to_string(hosts.dir.0.join("counters")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// Downloads `len` bytes from the server, and returns the time that it took.
pub(crate) fn download(hosts: &Hosts, server: &str, len: usize) -> Duration {
    let address: IpAddr = server.parse().unwrap();
    let listener = within(&hosts.server.0, move || TcpListener::bind((address, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..len).map(|i| ((i * 31) >> 4) as u8).collect();
    let copy = sent.clone();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(&copy).unwrap();
    });
    let (all, took) = within(&hosts.client.0, move || {
        let begin = Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        (all, begin.elapsed())
    });
    server.join().unwrap();
    assert!(all == sent, "it is what was sent");
    took
}
