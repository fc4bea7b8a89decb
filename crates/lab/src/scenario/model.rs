use std::collections::BTreeMap;
use std::fmt;

use forebay_control::{ControllerKind, Detection};
use forebay_units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::{Conditions, Fault, Phase, Queue, QueueKind, Traffic};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The experiment's name.
    pub name: String,
    /// The IP version of all traffic.
    pub ip: IpVersion,
    /// Whether hosts ask their peers for ECN (RFC 3168), as `tcp_ecn = 1` of Linux does.
    pub ecn: bool,
    /// Whether TCP of hosts paces whatever its congestion control, as with Linux's fair queue.
    #[serde(default)]
    pub paced: bool,
    /// Segments that it sends in one go at most, if that is limited, as `gso_max_segs` of Linux's
    /// interfaces has it.
    #[serde(default)]
    pub largest_burst: Option<u32>,
    /// The path between the sites.
    pub path: Path,
    /// What else the path does.
    pub conditions: Conditions,
    /// How many sites send to site B over this path, each through a sendbox of its own.
    pub sites: u32,
    /// What the cell has on the grid's axes other than rate and round-trip time.
    pub labels: BTreeMap<String, String>,
    /// The traffic, each with a name of its own.
    pub traffic: Vec<Traffic>,
    /// The arms, each with a name of its own; at least one.
    pub arms: Vec<Arm>,
    /// Named parts of the run.
    pub phases: Vec<Phase>,
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
    /// The cell in words: its path, and what it has on other axes of the grid.
    pub fn cell(&self) -> String {
        self.path.to_string() + &in_words(&self.labels)
    }

    /// The time that traffic runs: warm-up, measured interval, cool-down.
    pub fn length(&self) -> Nanos {
        self.warmup + self.duration + self.cooldown
    }

    /// How many classes its traffic is in, 1 at least.
    pub fn classes(&self) -> u8 {
        self.traffic.iter().map(|t| t.class).max().unwrap_or(0).saturating_add(1)
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
        self.phases = self.phases.into_iter().filter_map(|p| p.within(length)).collect();
        self.faults = self.faults.into_iter().filter_map(|f| f.within(length)).collect();
        self
    }

    /// The measured interval, from the start of the run.
    pub fn measured(&self) -> std::ops::Range<Nanos> {
        self.warmup..self.warmup + self.duration
    }
}

/// The labels of a cell, to come after its path: `, cubic, 10 flows, fifo 1 bdp`.
pub(crate) fn in_words(labels: &BTreeMap<String, String>) -> String {
    let word = |(key, value): (&String, &String)| match key.as_str() {
        "flows" if value == "1" => ", 1 flow".to_owned(),
        "flows" => format!(", {value} flows"),
        "load" => format!(", load {value}"),
        "mix" => format!(", {value} flows"),
        "ways" if value == "1" => ", 1 way".to_owned(),
        "ways" => format!(", {value} ways"),
        _ => format!(", {value}"),
    };
    labels.iter().map(word).collect()
}

/// The version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The path between the sites, with its bottleneck in the direction from site A to site B. The
/// other direction has the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// What the sendbox does.
    pub sendbox: Sendbox,
    /// The queue at the bottleneck.
    pub queue: Queue,
    /// What a second sendbox does, around the first ones, whose bundle is all that leaves them; its
    /// receivebox comes before theirs.
    pub outer: Option<Bundle>,
}

impl Arm {
    /// The policy of its boxes that only the kernel has, if one is.
    pub fn kernel_policy(&self) -> Option<QueueKind> {
        let own = match &self.sendbox {
            Sendbox::Forward => None,
            Sendbox::Bundle(bundle) => Some(bundle.queue.kind),
            Sendbox::Link(link) => Some(link.queue.kind),
        };
        let outer = self.outer.iter().map(|bundle| bundle.queue.kind);
        own.into_iter().chain(outer).find(|kind| kind.is_kernel_only())
    }
}

/// What the sendbox does in an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sendbox {
    /// It forwards and has no bundle: the network as it is today.
    Forward,
    /// It controls one bundle, all traffic from its site to site B.
    Bundle(Bundle),
    /// There is none, and `forebay link` in its place: all that leaves the site is queued at a rate
    /// that is known.
    Link(LinkBox),
}

/// What `forebay link` does with what leaves its site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkBox {
    /// How it is queued.
    pub queue: Queue,
    /// How fast it leaves.
    pub rate: Rate,
    /// Whether the box polls its ports and never sleeps; engines in virtual time have no need to.
    #[serde(default)]
    pub busy_poll: bool,
}

/// What a sendbox does with its bundle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// How it is queued.
    pub queue: Queue,
    /// What sets its rate.
    pub controller: ControllerKind,
    /// Whether elastic cross traffic makes it pass through.
    pub cross_traffic: Detection,
    /// Whether several ways open it.
    pub multipath: Detection,
}
