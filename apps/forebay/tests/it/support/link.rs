//! Two hosts and `forebay link` between them.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Stdio;
use std::thread;

use forebay_test_support::Dir;
use forebay_test_support::namespace::{Namespace, run, within};
use serde_json::Value;

use super::process::Process;
use super::sites::path;
use super::{HANG_TIMEOUT, forebay_in};

/// Addresses of the second host, IPv4 and IPv6.
pub(crate) const TO: [&str; 2] = ["10.9.5.2", "fd09:5::2"];
pub(crate) const ECT1: i32 = 1;
pub(crate) const NOT_ECT: i32 = 0;
/// The traffic class of expedited forwarding (RFC 3246), without ECN.
pub(crate) const EF: i32 = 46 << 2;

/// Two hosts and the box between them.
pub(crate) struct Hosts {
    from: Namespace,
    middle: Namespace,
    to: Namespace,
    pub(crate) dir: Dir,
}

impl Hosts {
    pub(crate) fn new(name: &str) -> Self {
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
    pub(crate) fn link(&self, more: &str) -> Process {
        let text = format!("[link]\ninside = \"fb-in\"\noutside = \"fb-out\"\n{more}");
        let file = self.dir.file("link.toml", &text, 0o644);
        let file = path(&file);
        let [statistics, counters] = ["statistics", "counters"].map(|name| self.dir.0.join(name));
        let mut command = forebay_in(&self.middle, &["link", "--config", file]);
        command.arg("--statistics").arg(statistics).arg("--counters").arg(counters);
        Process::start_ready(command.stdin(Stdio::null()))
    }

    /// Sends `len` bytes by TCP over this IP version.
    pub(crate) fn transfer(&self, version: usize, len: usize) {
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
            stream.set_write_timeout(Some(HANG_TIMEOUT)).unwrap();
            stream.write_all(&copy).unwrap();
        });
        assert!(reader.join().unwrap() == sent, "it is what was sent");
    }

    /// Sends a burst of `count` datagrams with this ECN field.
    pub(crate) fn datagrams(&self, version: usize, count: usize, ecn: i32) {
        self.datagrams_to(TO[version], count, ecn);
    }

    /// Sends a burst of `count` datagrams with this traffic class (DSCP and ECN field).
    pub(crate) fn datagrams_to(&self, to: &str, count: usize, ecn: i32) {
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
    pub(crate) fn tagged(&self, vlan: u16, count: usize) {
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
    pub(crate) fn received(&self, name: &str) -> u64 {
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
    pub(crate) fn total(&self, direction: &str) -> Value {
        let text = fs::read_to_string(self.dir.0.join("statistics")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut totals = lines.filter(|l| l["kind"] == "total" && l["direction"] == direction);
        totals.next().unwrap()
    }
}

/// Checks the path to the second host over `version`. Returns the exit status and the report.
pub(crate) fn l4s_check(hosts: &Hosts, version: usize) -> (Option<i32>, Value) {
    let mut command = forebay_in(&hosts.to, &["l4s", "reflect"]);
    let _reflector = Process::start_saying("answers checks", &mut command);
    let arguments = ["l4s", "check", TO[version], "--json"];
    let checked = forebay_in(&hosts.from, &arguments).output().unwrap();
    let report = serde_json::from_slice(&checked.stdout).unwrap();
    (checked.status.code(), report)
}

/// Which faults there are. The delays of a loaded machine may add some, so what matters here is
/// which of them are there at least, and which cannot be.
pub(crate) fn l4s_faults(report: &Value) -> Vec<&str> {
    let found = report["findings"].as_array().unwrap().iter();
    found.map(|f| f["kind"].as_str().unwrap()).collect()
}
