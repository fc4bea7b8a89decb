//! Two end namespaces with three paths between them: routed by the namespace in the middle, bridged
//! over its ports as over a wire, and direct.

use std::fs;
use std::path::PathBuf;

use forebay_test_support::namespace::{Namespace, run};

/// The size of the packets that the middle sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    Packets,
    SuperPackets,
}

impl Load {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::SuperPackets => "super-packets",
        }
    }
}

/// The number of TCP connections, each to its own address.
pub(crate) const FLOWS: u8 = 8;

/// The path that the traffic takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Routed,
    Wire,
    Direct,
}

pub(crate) struct Network {
    pub(crate) near: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) far: Namespace,
    /// The directory for configurations and keys, removed when this value is dropped.
    pub(crate) dir: PathBuf,
}

impl Network {
    /// Sets up a network for one load: once XDP has been attached to a veth, its peer makes no
    /// super-packets any more, so none is used twice.
    pub(crate) fn new(load: Load) -> Self {
        let id = std::process::id();
        let [near, middle, far] = ["a", "m", "b"].map(|n| Namespace::new(format!("fb-bd{id}-{n}")));
        let dir = std::env::temp_dir().join(format!("fb-bd-{id}"));
        fs::create_dir_all(&dir).unwrap();
        let network = Self { near, middle, far, dir };
        network.connect();
        network.carry(load);
        network
    }

    fn connect(&self) {
        let Self { near, middle, far, .. } = self;
        for (one, a, other, b) in [
            (near, "eth0", middle, "in"),
            (middle, "out", far, "eth0"),
            (near, "direct", far, "direct"),
        ] {
            let (one, other) = (&one.0, &other.0);
            run(&format!("ip -n {one} link add {a} type veth peer name {b} netns {other}"));
            for (namespace, device) in [(one, a), (other, b)] {
                let sysctl = format!("net.ipv6.conf.{device}.disable_ipv6=1");
                run(&format!("ip netns exec {namespace} sysctl -qw {sysctl}"));
                run(&format!("ip -n {namespace} link set {device} up"));
            }
        }
        for (place, device, address) in [
            (near, "eth0", "10.9.1.2/24"),
            (middle, "in", "10.9.1.1/24"),
            (middle, "out", "10.9.2.1/24"),
            (near, "eth0", "10.9.3.1/24"),
            (near, "direct", "10.9.4.1/24"),
        ] {
            run(&format!("ip -n {} address add {address} dev {device}", place.0));
        }
        for host in 2..2 + FLOWS {
            for (net, device) in [(2, "eth0"), (3, "eth0"), (4, "direct")] {
                run(&format!("ip -n {} address add 10.9.{net}.{host}/24 dev {device}", far.0));
            }
        }
        run(&format!("ip netns exec {} sysctl -qw net.ipv4.ip_forward=1", middle.0));
        run(&format!("ip -n {} route add 10.9.2.0/24 via 10.9.1.1", near.0));
        run(&format!("ip -n {} route add 10.9.1.0/24 via 10.9.2.1", far.0));
    }

    /// Sets the offloads of all devices so that they make packets of that size.
    fn carry(&self, load: Load) {
        // A port hands frames to a NIC as they are, so the checksums must be complete.
        let offloads = match load {
            Load::Packets => "tso off gso off tx off",
            Load::SuperPackets => "tx on gso on tso on",
        };
        for (place, devices) in [
            (&self.near, ["eth0", "direct"]),
            (&self.middle, ["in", "out"]),
            (&self.far, ["eth0", "direct"]),
        ] {
            for device in devices {
                run(&format!("ip netns exec {} ethtool -K {device} {offloads}", place.0));
            }
        }
    }

    /// Makes the ends' devices accept the frames that a port sends by XDP. The veth driver requires
    /// GRO for that, which also merges packets.
    pub(crate) fn merge_at_ends(&self, on: bool) {
        let state = if on { "on" } else { "off" };
        for place in [&self.near, &self.far] {
            run(&format!("ip netns exec {} ethtool -K eth0 gro {state}", place.0));
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
