//! What is known of a machine: plain data, found by [`probe`](super::probe) and judged by
//! [`checks`](super::checks), so that machines which nobody has can be judged too.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use forebay_dataplane::{Feature, Method, XdpSupport};
use forebay_units::Nanos;

use super::Role;

/// What was asked, or why there is no answer.
pub(super) type Answer<T> = Result<T, String>;

/// All that is known of a machine.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) kernel: Kernel,
    /// The queueing disciplines that the kernel has.
    pub(super) qdiscs: Answer<BTreeSet<&'static str>>,
    pub(super) bpf: Bpf,
    /// The effective capabilities of this process, as bits.
    pub(super) capabilities: u64,
    /// Bytes that this process may lock in memory; `None` is no limit.
    pub(super) memlock: Option<u64>,
    pub(super) clock: Clock,
    pub(super) interfaces: Vec<Interface>,
    /// What a configuration asks for.
    pub(super) plan: Option<Plan>,
}

#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// As `uname -r` has it.
    pub(super) release: String,
    /// Major and minor.
    pub(super) version: Option<(u32, u32)>,
}

#[derive(Clone, Debug)]
pub(super) struct Bpf {
    /// Parts that BPF is made of here, and whether they are there.
    pub(super) parts: Vec<(&'static str, bool)>,
    /// Whether the kernel describes its own types.
    pub(super) types: bool,
    /// `net.core.bpf_jit_enable`; `None` where the kernel does not tell, as when it always
    /// compiles.
    pub(super) jit: Option<bool>,
    /// The programs of a sendbox over the kernel's queues, loaded and attached for a moment.
    pub(super) observer: Answer<()>,
    /// The receivebox's program at tc's ingress, likewise.
    pub(super) ingress: Answer<()>,
    /// The receivebox's program for XDP, and a port over AF_XDP; how it moves frames.
    pub(super) af_xdp: Answer<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The kernel's clock source.
    pub(super) source: Option<String>,
    /// Of CLOCK_MONOTONIC: a nanosecond with high-resolution timers.
    pub(super) resolution: Nanos,
    /// Ticks a second (HZ), by the resolution of the coarse clock.
    pub(super) hertz: Option<u64>,
    /// What reading the clock costs.
    pub(super) read: Nanos,
    /// How late short sleeps ended, in the middle and at worst.
    pub(super) late: (Nanos, Nanos),
    /// How far the kernel slews its clocks against the hardware, in parts per million.
    pub(super) slew: Option<f64>,
}

#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) ethernet: bool,
    pub(super) mtu: u32,
    pub(super) queues: u32,
    pub(super) features: BTreeSet<Feature>,
    pub(super) xdp: Answer<XdpSupport>,
    /// What is at the root of its queues.
    pub(super) root: Answer<Root>,
}

/// Whose the queues of an interface are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The kernel's own.
    Default,
    /// A sendbox's, that runs or has died.
    Ours,
    /// Somebody else's: kind and name.
    Foreign(String),
}

/// What a configuration asks for, as far as it could be read.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The file.
    pub(super) file: String,
    pub(super) role: Role,
    /// Why the file cannot be run as it is.
    pub(super) trouble: Option<String>,
    /// The interfaces that it names, the outer one first.
    pub(super) interfaces: Vec<String>,
    /// How a sendbox of its own queues is to reach them.
    pub(super) method: Method,
    /// Whether somebody else's queues may be replaced.
    pub(super) take_over: bool,
    /// The tree of queues: how many objects it has, or why it cannot be.
    pub(super) tree: Option<Answer<usize>>,
    /// Bytes that the pool of frames maps.
    pub(super) pool: u64,
    pub(super) peers: Vec<Peer>,
}

/// The other box of a bundle.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The bundle.
    pub(super) bundle: String,
    /// Where the other box listens.
    pub(super) address: SocketAddr,
    /// The way there: device, MTU (the route's own or the device's) and our address on it.
    pub(super) route: Answer<PeerRoute>,
    /// Devices that packets to the bundle's prefixes leave by, where that is not the outer
    /// interface.
    pub(super) strays: Vec<(String, String)>,
    /// What the other box said; `None` if it was not asked.
    pub(super) reply: Option<Reply>,
}

#[derive(Clone, Debug)]
pub(super) struct PeerRoute {
    pub(super) device: String,
    pub(super) mtu: u32,
    pub(super) source: Option<IpAddr>,
}

/// What came of asking a receivebox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It answered, with the right key.
    Answered { after: Nanos, from: SocketAddr },
    /// Something came that is not authentic.
    Refused(String),
    /// Nothing came.
    Silent,
    /// It could not be asked, as when a sendbox runs here.
    NotAsked(String),
}
