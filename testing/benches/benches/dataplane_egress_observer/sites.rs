//! A site, a router and another site, with a veth pair between each two.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use forebay_test_support::namespace::{Namespace, run, within};
use forebay_wire::FingerprintKey;
use ipnet::IpNet;
use socket2::SockRef;

/// Where the traffic comes from and goes to, in both IP versions.
pub(crate) const FROM: [&str; 2] = ["10.9.1.0/24", "fd09:1::/64"];
pub(crate) const TO: [&str; 2] = ["10.9.2.0/24", "fd09:2::/64"];

/// Allows less data in transit than a veth can hold.
const SEND_BUFFER: usize = 128 << 10;

/// The key of the fingerprints.
pub(crate) const KEY: FingerprintKey = FingerprintKey([0x1122_3344, 0x5566_7788_99aa_bbcc]);

pub(crate) fn prefixes(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|p| p.parse().unwrap()).collect()
}

pub(crate) struct Sites {
    pub(crate) from: Namespace,
    pub(crate) to: Namespace,
    _router: Namespace,
}

impl Sites {
    /// `from`'s `eth0` and the router's `fbr` have one index, in two namespaces.
    pub(crate) fn new() -> Self {
        let id = std::process::id();
        let [from, router, to] = ["a", "r", "b"].map(|n| Namespace::new(format!("fb-be{id}-{n}")));
        let (a, r, b) = (&from.0, &router.0, &to.0);
        run(&format!("ip -n {a} link add eth0 index 77 type veth peer name fbl netns {r}"));
        run(&format!("ip -n {r} link add fbr index 77 type veth peer name eth0 netns {b}"));
        run(&format!("ip netns exec {r} sysctl -qw net.ipv4.ip_forward=1"));
        for (namespace, device, net, host) in
            [(a, "eth0", 1, 2), (r, "fbl", 1, 1), (r, "fbr", 2, 1), (b, "eth0", 2, 2)]
        {
            run(&format!("ip -n {namespace} address add 10.9.{net}.{host}/24 dev {device}"));
            run(&format!("ip -n {namespace} link set {device} up"));
        }
        for (namespace, gateway) in [(a, 1), (b, 2)] {
            run(&format!("ip -n {namespace} route add default via 10.9.{gateway}.1"));
        }
        Self { from, to, _router: router }
    }

    /// Sends `len` bytes by TCP and waits until all have been read.
    pub(crate) fn tcp(&self, len: usize) {
        let listener = within(&self.to.0, || TcpListener::bind(("10.9.2.2", 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all.len()
        });
        let _stream = within(&self.from.0, || {
            let mut stream = TcpStream::connect(address).unwrap();
            SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER).unwrap();
            stream.write_all(&vec![0x5a; len]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        });
        assert_eq!(reader.join().unwrap(), len);
    }

    /// Packets that a device's driver was given to send, as the kernel counts them.
    pub(crate) fn sent(namespace: &str, device: &str) -> u64 {
        let path = format!("/sys/class/net/{device}/statistics/tx_packets");
        run(&format!("ip netns exec {namespace} cat {path}")).trim().parse().unwrap()
    }
}
