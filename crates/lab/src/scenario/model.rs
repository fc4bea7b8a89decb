use std::fmt;

use forebay_config::Limit;
use forebay_units::{Bytes, Nanos, Rate};

use super::{Fault, Traffic};

/// An experiment: the same comparison in each cell of its grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name, for files: letters, digits, `-` and `_`.
    pub name: String,
    /// What it shows, in one line; may be empty.
    pub title: String,
    /// The seeds that every cell and arm is run with; at least one.
    pub seeds: Vec<u64>,
    /// The cells of the grid, a single one without a grid.
    pub cells: Vec<Scenario>,
}

/// One cell: a path, its traffic, and the arms to compare on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The experiment's name.
    pub name: String,
    /// The IP version of all traffic.
    pub ip: IpVersion,
    /// The path between the sites.
    pub path: Path,
    /// The traffic, each with a name of its own.
    pub traffic: Vec<Traffic>,
    /// The arms, each with a name of its own; at least one.
    pub arms: Vec<Arm>,
    /// What goes wrong, in the order of time; a process is never killed while it is dead.
    pub faults: Vec<Fault>,
    /// Traffic runs this long before anything is measured.
    pub warmup: Nanos,
    /// How long is measured.
    pub duration: Nanos,
    /// Traffic runs this much longer, so that what was asked for late can still end.
    pub cooldown: Nanos,
}

impl Scenario {
    /// The time that traffic runs: warm-up, measured interval, cool-down.
    pub fn length(&self) -> Nanos {
        self.warmup + self.duration + self.cooldown
    }

    /// The same scenario, measured for `duration`. Traffic that lasted to the end still does, and
    /// what would come after the new end is cut, a process's return too.
    #[must_use]
    pub fn measured_for(mut self, duration: Nanos) -> Self {
        let before = self.length();
        self.duration = duration;
        let length = self.length();
        for traffic in &mut self.traffic {
            let lasts = traffic.stop >= before;
            traffic.stop = if lasts { length } else { traffic.stop.min(length) };
        }
        self.traffic.retain(|t| t.start < t.stop);
        self.faults = self.faults.into_iter().filter_map(|f| f.within(length)).collect();
        self
    }

    /// The measured interval, from the start of the run.
    pub fn measured(&self) -> std::ops::Range<Nanos> {
        self.warmup..self.warmup + self.duration
    }
}

/// The version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The path between the sites, with its bottleneck in the direction from site A to site B. The
/// other direction has the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The round-trip time of the empty path, half of it each way.
    pub rtt: Nanos,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s, {} ms", self.rate.as_mbps_f64(), self.rtt.as_millis_f64())
    }
}

/// One of the alternatives that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// What the sendbox does.
    pub sendbox: Sendbox,
    /// The queue at the bottleneck.
    pub queue: Queue,
}

/// What the sendbox does in an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sendbox {
    /// It forwards and has no bundle: the network as it is today.
    Forward,
    /// It controls one bundle, all traffic from site A to site B, and queues it like this.
    Bundle(Queue),
}

/// A queue: its discipline and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The discipline.
    pub kind: QueueKind,
    /// How much may wait.
    pub limit: Limit,
}

impl Queue {
    /// The limit in bytes on `path`.
    pub fn limit_bytes(&self, path: &Path) -> Bytes {
        self.limit.bytes(path.rate, path.rtt)
    }

    /// The limit in full-sized packets on `path`, rounded up.
    pub fn limit_packets(&self, path: &Path) -> u64 {
        self.limit.packets(path.rate, path.rtt)
    }
}

/// A queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out; drops at the tail.
    Fifo,
    /// Stochastic fairness queueing.
    Sfq,
    /// Flow queueing with CoDel (RFC 8290).
    FqCodel,
}

impl QueueKind {
    /// Its name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Sfq => "sfq",
            Self::FqCodel => "fq_codel",
        }
    }
}
