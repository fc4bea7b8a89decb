//! Tunnels of a test's own, and the comparison of what leaves with what arrives.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{BundleRule, Counts, Hook, Netdev, Sampler};
use forebay_test_support::namespace::{self, Namespace, run, within};
use forebay_test_support::tun::{Carrier, Tun};

use crate::seen::{Comparison, Seen};
use crate::sites::{ASIDE, FROM, KEY, TO, prefixes, settle};

/// Two namespaces, each with one end of a tunnel.
pub(crate) fn ends() -> [Namespace; 2] {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    ["a", "b"].map(|n| Namespace::new(format!("fb-tu{id}-{n}")))
}

/// Gives a tunnel's end its addresses, and the route to the other end's.
pub(crate) fn address(namespace: &Namespace, device: &str, here: usize, there: usize) {
    let name = &namespace.0;
    run(&format!("ip -n {name} address add 10.9.{here}.2/24 dev {device}"));
    run(&format!("ip -n {name} address add fd09:{here}::2/64 dev {device} nodad"));
    run(&format!("ip -n {name} route add 10.9.{there}.0/24 dev {device}"));
    run(&format!("ip -n {name} -6 route add fd09:{there}::/64 dev {device}"));
}

pub(crate) fn observer(namespace: &Namespace, device: &'static str) -> EgressObserver {
    namespace::enter(&namespace.0);
    let mut observer = EgressObserver::attach(&Netdev::find(device).unwrap()).unwrap();
    observer.set_bundles(&[prefixes(&TO)]).unwrap();
    observer.set_key(0, KEY).unwrap();
    observer.set_epoch(0, 1).unwrap();
    observer
}

pub(crate) fn rule() -> BundleRule {
    BundleRule { sources: prefixes(&FROM), destinations: prefixes(&TO), key: KEY, epoch: 1 }
}

/// A TCP connection in each IP version, and datagrams of many lengths.
pub(crate) fn traffic(from: &Namespace, to: &Namespace) {
    for host in ["10.9.2.2", "fd09:2::2"] {
        let listener = within(&to.0, move || TcpListener::bind((host, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all.len()
        });
        within(&from.0, move || {
            TcpStream::connect(address).unwrap().write_all(&vec![0x5a; 1 << 20]).unwrap();
        });
        assert_eq!(reader.join().unwrap(), 1 << 20);
    }
    datagrams(from);
}

/// A datagram of each length from 0 to 1499 bytes in steps, in both IP versions; some are in
/// fragments.
pub(crate) fn datagrams(from: &Namespace) {
    within(&from.0, || {
        for (any, host) in [("0.0.0.0:0", "10.9.2.2:4000"), ("[::]:0", "[fd09:2::2]:4000")] {
            let socket = UdpSocket::bind(any).unwrap();
            for len in (0..1500).step_by(13) {
                // Nobody listens there, which the next datagram may be told.
                let _ = socket.send_to(&vec![0xa5; len], host);
            }
        }
    });
}

/// Compares what leaves by a tunnel with what arrives from it, with super-packets and without.
pub(crate) fn compare(mut comparison: Comparison) {
    for super_packets in [false, true] {
        let [a, b] = ends();
        let (one, other) =
            (Tun::new(&a, "tun0", super_packets), Tun::new(&b, "tun0", super_packets));
        address(&a, "tun0", 1, 2);
        address(&b, "tun0", 2, 1);
        run(&format!("ip -n {} route add {ASIDE} dev tun0", a.0));
        let mut carrier = Carrier::default();
        carrier.join(&one, &other);
        let mut observer = observer(&a, "tun0");
        namespace::enter(&b.0);
        let mut sampler = Sampler::attach(&Netdev::find("tun0").unwrap(), &[rule()]).unwrap();
        assert_eq!(sampler.hook(), Hook::Tc, "XDP would look for Ethernet headers");
        traffic(&a, &b);
        settle(&a, &b);
        let sent = within(&a.0, || {
            let path = "/proc/thread-self/net/dev";
            let text = std::fs::read_to_string(path).unwrap();
            let line = text.lines().find(|l| l.contains("tun0")).unwrap().to_owned();
            line.split_whitespace().nth(10).unwrap().parse::<u64>().unwrap()
        });
        let left = Seen::leaving(&mut observer, 0, Counts::default());
        let arrived = Seen::arriving(&mut sampler, Counts::default());
        if super_packets {
            assert!(sent < arrived.counts.packets / 2, "super-packets: {sent}");
        }
        assert!(arrived.counts.packets > 1500, "{:?}", arrived.counts);
        comparison.add(&format!("super-packets: {super_packets}"), &left, &arrived);
        assert_eq!((observer.not_understood().unwrap(), sampler.not_understood().unwrap()), (0, 0));
    }
    comparison.check();
}
