//! A site, a router and another site: what the router sends on, it has cut up if it was a
//! super-packet and the next link wants packets.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_dataplane::Netdev;
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_wire::FingerprintKey;
use ipnet::IpNet;

use crate::{TIMEOUT, cpus};

/// Where the traffic comes from and goes to, in both IP versions.
pub(crate) const FROM: [&str; 2] = ["10.9.1.0/24", "fd09:1::/64"];
pub(crate) const TO: [&str; 2] = ["10.9.2.0/24", "fd09:2::/64"];
const TO_HOST: [&str; 2] = ["10.9.2.2", "fd09:2::2"];

/// An address of the site that traffic goes to, which is in no bundle.
pub(crate) const ASIDE: &str = "10.9.3.2";

/// The key of the fingerprints.
pub(crate) const KEY: FingerprintKey = FingerprintKey([0x1122_3344, 0x5566_7788_99aa_bbcc]);

pub(crate) fn prefixes(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|p| p.parse().unwrap()).collect()
}

pub(crate) struct Sites {
    pub(crate) from: Namespace,
    pub(crate) router: Namespace,
    pub(crate) to: Namespace,
}

impl Sites {
    /// `from`'s `eth0` and the router's `fbr` have one index, in two namespaces.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let [from, router, to] = ["a", "r", "b"].map(|n| Namespace::new(format!("fb-si{id}-{n}")));
        let (a, r, b) = (&from.0, &router.0, &to.0);
        // A router asks for neighbours from its link-local address, which else is tentative for a
        // second.
        for namespace in [a, r, b] {
            let sysctl = "sysctl -qw net.ipv6.conf.default.dad_transmits=0";
            run(&format!("ip netns exec {namespace} {sysctl}"));
        }
        run(&format!("ip -n {a} link add eth0 index 77 type veth peer name fbl netns {r}"));
        run(&format!("ip -n {r} link add fbr index 77 type veth peer name eth0 netns {b}"));
        run(&format!("ip netns exec {r} sysctl -qw net.ipv4.ip_forward=1"));
        run(&format!("ip netns exec {r} sysctl -qw net.ipv6.conf.all.forwarding=1"));
        for (namespace, device, net, host) in
            [(a, "eth0", 1, 2), (r, "fbl", 1, 1), (r, "fbr", 2, 1), (b, "eth0", 2, 2)]
        {
            run(&format!("ip -n {namespace} address add 10.9.{net}.{host}/24 dev {device}"));
            let v6 = format!("fd09:{net}::{host}/64 dev {device} nodad");
            run(&format!("ip -n {namespace} address add {v6}"));
            run(&format!("ip -n {namespace} link set {device} up"));
        }
        run(&format!("ip -n {r} route add {ASIDE} via 10.9.2.2"));
        for (namespace, gateway) in [(a, 1), (b, 2)] {
            run(&format!("ip -n {namespace} route add default via 10.9.{gateway}.1"));
            run(&format!("ip -n {namespace} -6 route add default via fd09:{gateway}::1"));
        }
        Self { from, router, to }
    }

    /// Sends `len` bytes by TCP, no more than 64 KiB of them under way: less than a veth can hold.
    pub(crate) fn tcp(&self, version: usize, len: usize) {
        self.connection(version, len, 128 << 10);
    }

    /// Sends `len` bytes by TCP, with so many of them under way that super-packets grow beyond 64
    /// KiB.
    pub(crate) fn bulk(&self, version: usize, len: usize) {
        self.connection(version, len, 1 << 20);
    }

    fn connection(&self, version: usize, len: usize, send_buffer: i32) {
        let to: IpAddr = TO_HOST[version].parse().unwrap();
        let listener = within(&self.to.0, move || TcpListener::bind((to, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all.len()
        });
        let stream = within(&self.from.0, move || {
            let mut stream = TcpStream::connect(address).unwrap();
            set(&stream, libc::SOL_SOCKET, libc::SO_SNDBUF, send_buffer);
            stream.write_all(&vec![0x5a; len]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        });
        assert_eq!(reader.join().unwrap(), len);
        // What the sender does not know to have arrived leaves again, 200 ms later.
        until(|| unacknowledged(&stream) == 0);
    }

    /// Sends a datagram of `len` bytes in a frame with `padding` more at its end.
    pub(crate) fn padded(&self, version: usize, len: u8, padding: usize) {
        let mac = |namespace: &str, device: &'static str| {
            within(namespace, move || Netdev::find(device).unwrap().mac)
        };
        let ethertype = [[8, 0], [0x86, 0xdd]][version];
        let mut frame = mac(&self.router.0, "fbl").to_vec();
        frame.extend(mac(&self.from.0, "eth0"));
        frame.extend(ethertype);
        match version {
            0 => {
                let mut ip = [0x45, 0, 0, 28 + len, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0];
                let addresses = [10, 9, 1, 2, 10, 9, 2, 2];
                let words = |b: &[u8]| -> u32 {
                    b.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum()
                };
                let sum = words(&ip) + words(&addresses);
                let sum = !(sum + (sum >> 16)) as u16;
                ip[10..].copy_from_slice(&sum.to_be_bytes());
                frame.extend([&ip[..], &addresses].concat());
            }
            _ => {
                frame.extend([0x60, 0, 0, 0, 0, 8 + len, 17, 64]);
                for address in ["fd09:1::2", "fd09:2::2"] {
                    frame.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
                }
            }
        }
        // From port 7 to port 9, and no checksum, which no router looks at.
        frame.extend([0, 7, 0, 9, 0, 8 + len, 0, 0]);
        frame.resize(frame.len() + usize::from(len) + padding, 0x5a);
        within(&self.from.0, move || send_raw("eth0", &frame));
    }

    /// Sends a datagram to each of `ports`, in segments of `segment` bytes where that is not zero.
    pub(crate) fn udp(
        &self,
        to: SocketAddr,
        ports: std::ops::Range<u16>,
        len: usize,
        segment: i32,
    ) {
        within(&self.from.0, move || {
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            if segment > 0 {
                const UDP_SEGMENT: i32 = 103;
                set(&socket, libc::SOL_UDP, UDP_SEGMENT, segment);
            }
            for port in ports {
                // Nobody listens there, which the second of two datagrams may be told.
                let _ = socket.send_to(&vec![0xa5; len], (to.ip(), port));
            }
        });
    }

    /// A datagram to each of the other site's addresses has arrived: whatever it waited for on its
    /// way, an address of the router's or behind it, is known from now on, and nothing is under way
    /// any more.
    pub(crate) fn introduce(&self) {
        for version in [0, 1] {
            let there = within(&self.to.0, move || {
                let socket = UdpSocket::bind((host(version).ip(), 4000)).unwrap();
                socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                socket
            });
            self.udp(host(version), 4000..4001, 100, 0);
            there.recv_from(&mut [0; 100]).unwrap();
        }
    }

    /// Waits until nothing is under way from the first site to the other one.
    pub(crate) fn settle(&self) {
        settle(&self.from, &self.to);
    }

    /// Everything that a device's driver was given to send, as the kernel counts it.
    pub(crate) fn sent(&self, namespace: &str, device: &str) -> u64 {
        let path = format!("/sys/class/net/{device}/statistics/tx_packets");
        run(&format!("ip netns exec {namespace} cat {path}")).trim().parse().unwrap()
    }
}

pub(crate) fn host(version: usize) -> SocketAddr {
    (TO_HOST[version].parse::<IpAddr>().unwrap(), 0).into()
}

fn set(socket: &impl AsRawFd, level: i32, name: i32, value: i32) {
    let fd = socket.as_raw_fd();
    // SAFETY: the option's value is an int that lives through the call.
    let rc = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), 4) };
    assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
}

/// The bytes that a TCP connection has sent, or is to send, and that are not known to have arrived;
/// its end counts as one.
fn unacknowledged(stream: &TcpStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: the answer is an int that lives through the call.
    let rc = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
    bytes
}

/// Waits until nothing is under way between two sites. The kernel has queues for each CPU, so on
/// each one a datagram follows what left before. Three times, since answers may be under way, too.
pub(crate) fn settle(from: &Namespace, to: &Namespace) {
    run(&format!("ip -n {} address replace {ASIDE}/32 dev lo", to.0));
    let there = within(&to.0, || UdpSocket::bind((ASIDE, 0)).unwrap());
    there.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let address = there.local_addr().unwrap();
    let has_arrived = |cpu| {
        within(&from.0, || {
            cpus::stay_on(cpu);
            UdpSocket::bind("0.0.0.0:0").unwrap().send_to(&[0; 100], address).unwrap();
        });
        there.recv_from(&mut [0; 100]).is_ok()
    };
    for _ in 0..3 {
        for cpu in cpus::allowed() {
            until(|| has_arrived(cpu));
        }
    }
}

/// Waits for what happens soon.
pub(crate) fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "it did not happen");
        std::thread::yield_now();
    }
}

/// Sends a frame as it is, from this thread's namespace.
pub(crate) fn send_raw(device: &str, frame: &[u8]) {
    let index = Netdev::find(device).unwrap().index as i32;
    // SAFETY: a packet socket of our own, an address that is valid and as long as is said, and a
    // frame that is valid for reading.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(fd);
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index;
        let (at, length) = ((&raw const to).cast(), size_of_val(&to) as u32);
        let sent =
            libc::sendto(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, at, length);
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}
