//! The facts about a machine, as plain data. [`probe`](super::probe) gathers them, and
//! [`checks`](super::checks) judge them. Tests can therefore judge machines of any kind.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use forebay_dataplane::{Feature, Framing, Method, XdpSupport};
use forebay_units::Nanos;

use super::Role;

/// The answer to a question, or the reason why there is none.
pub(super) type Answer<T> = Result<T, String>;

/// All facts about a machine.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) kernel: Kernel,
    /// The queueing disciplines of the kernel.
    pub(super) qdiscs: Answer<BTreeSet<&'static str>>,
    pub(super) bpf: Bpf,
    /// The effective capabilities of this process, as bits.
    pub(super) capabilities: u64,
    /// The bytes that this process may lock in memory; `None` is no limit.
    pub(super) memlock: Option<u64>,
    pub(super) clock: Clock,
    pub(super) interfaces: Vec<Interface>,
    /// The needs of the configuration.
    pub(super) plan: Option<Plan>,
}

#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// The release as in `uname -r`.
    pub(super) release: String,
    /// The major and minor version.
    pub(super) version: Option<(u32, u32)>,
}

#[derive(Clone, Debug)]
pub(super) struct Bpf {
    /// The parts of BPF that boxes need, and whether the kernel has each.
    pub(super) parts: Vec<(&'static str, bool)>,
    /// Whether the kernel has type information (BTF).
    pub(super) types: bool,
    /// The value of `net.core.bpf_jit_enable`; `None` where the kernel has no such setting, because
    /// it always compiles.
    pub(super) jit: Option<bool>,
    /// Whether the programs of a sendbox over the kernel's queues can be loaded and attached.
    pub(super) observer: Answer<()>,
    /// Whether the receivebox's program can be attached to tc's ingress.
    pub(super) ingress: Answer<()>,
    /// Whether the programs of a sendbox over the kernel's queues can be loaded for devices without
    /// an Ethernet header.
    pub(super) tunnel_observer: Answer<()>,
    /// Whether the receivebox's program at tc's ingress can be loaded for such devices.
    pub(super) tunnel_ingress: Answer<()>,
    /// Whether the programs can be attached that pass frames on when a box over AF_PACKET has died.
    pub(super) bypass: Answer<()>,
    /// How a port over AF_XDP moves frames, if it can be opened.
    pub(super) af_xdp: Answer<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The kernel's clock source.
    pub(super) source: Option<String>,
    /// The resolution of CLOCK_MONOTONIC: a nanosecond with high-resolution timers.
    pub(super) resolution: Nanos,
    /// The ticks per second (HZ), by the resolution of the coarse clock.
    pub(super) hertz: Option<u64>,
    /// The time that a reading of the clock takes.
    pub(super) read: Nanos,
    /// The lateness of short sleeps, median and maximum.
    pub(super) late: (Nanos, Nanos),
    /// The rate at which the kernel slews its clocks, in parts per million.
    pub(super) slew: Option<f64>,
}

#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) framing: Answer<Framing>,
    pub(super) mtu: u32,
    pub(super) queues: u32,
    pub(super) features: BTreeSet<Feature>,
    pub(super) xdp: Answer<XdpSupport>,
    /// The owner of its queues.
    pub(super) root: Answer<Root>,
}

/// The owner of an interface's queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The kernel, with its default queues.
    Default,
    /// A sendbox that runs or has died.
    Ours,
    /// Another owner: the kind and the name of the root qdisc.
    Foreign(String),
}

/// The needs of a configuration, as far as it could be read.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The name of the file.
    pub(super) file: String,
    pub(super) role: Role,
    /// The reason why the file cannot be used as it is.
    pub(super) trouble: Option<String>,
    /// The interfaces that it names, the outer one first.
    pub(super) interfaces: Vec<String>,
    /// The method by which a sendbox in user space moves frames.
    pub(super) method: Method,
    /// Whether queues of another owner may be replaced.
    pub(super) take_over: bool,
    /// The number of objects in the tree of queues, or the reason why it cannot be planned.
    pub(super) tree: Option<Answer<usize>>,
    /// The bytes of the frame pool.
    pub(super) pool: u64,
    /// The other boxes.
    pub(super) peers: Vec<Peer>,
}

/// The other box of a bundle.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The name of the bundle.
    pub(super) bundle: String,
    /// The address of the other box; `None` if its messages tell it.
    pub(super) address: Option<SocketAddr>,
    /// The route to the other box.
    pub(super) route: Answer<PeerRoute>,
    /// The prefixes of the bundle whose packets leave by another device than the outer interface,
    /// with that device.
    pub(super) strays: Vec<(String, String)>,
    /// The reply of the other box; `None` if it was not asked.
    pub(super) reply: Option<Reply>,
}

/// The route to another box.
#[derive(Clone, Debug)]
pub(super) struct PeerRoute {
    /// The device through which packets leave.
    pub(super) device: String,
    /// The MTU of the route, or else of the device.
    pub(super) mtu: u32,
    /// The address of this machine on the route.
    pub(super) source: Option<IpAddr>,
}

/// The reply of a receivebox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It answered with the right key.
    Answered { after: Nanos, from: SocketAddr },
    /// A message arrived that is not authentic.
    Refused(String),
    /// The network reported that the message was not delivered.
    Undelivered(String),
    /// No message arrived.
    Silent,
    /// A sendbox runs here, and the two understand each other; in this mode.
    Running(String),
    /// A sendbox runs here, and this is wrong between the two.
    Trouble(String),
    /// It could not be asked, for example because a sendbox runs here.
    NotAsked(String),
}
