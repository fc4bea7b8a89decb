use std::collections::BTreeMap;
use std::fmt;

use forebay_control::{ControllerKind, Detection};
use forebay_sim::Capacity;
use forebay_units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::{ClassShares, Conditions, Fault, Phase, Queue, QueueKind, Traffic};

/// An experiment: the same comparison in each cell of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The name, used in file names: letters, digits, `-` and `_`.
    pub name: String,
    /// A title of one line; may be empty.
    pub title: String,
    /// The seeds with which every cell and arm is run; at least one.
    pub seeds: Vec<u64>,
    /// The cells of the grid; a single one without a grid.
    pub cells: Vec<Scenario>,
}

/// One cell: a path, its traffic, and the arms to compare on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The name of the experiment.
    pub name: String,
    /// The IP version of all traffic.
    pub ip: IpVersion,
    /// Whether hosts request ECN (RFC 3168), like Linux with `tcp_ecn = 1`.
    pub ecn: bool,
    /// Whether hosts pace TCP with any congestion control, like Linux with the qdisc `fq`.
    #[serde(default)]
    pub paced: bool,
    /// The largest number of segments that TCP sends in one burst, if limited, like `gso_max_segs`
    /// of Linux's interfaces.
    #[serde(default)]
    pub largest_burst: Option<u32>,
    /// What a run keeps.
    #[serde(default)]
    pub records: Records,
    /// The path between the sites.
    pub path: Path,
    /// Further conditions of the path.
    pub conditions: Conditions,
    /// The number of sites that send to site B over this path, each through its own sendbox.
    pub sites: u32,
    /// The values of the cell on the grid's axes other than rate and round-trip time.
    pub labels: BTreeMap<String, String>,
    /// The traffic, with distinct names.
    pub traffic: Vec<Traffic>,
    /// The arms, with distinct names; at least one.
    pub arms: Vec<Arm>,
    /// Named parts of the run.
    pub phases: Vec<Phase>,
    /// The faults in the order of time. A process is not killed while it is dead.
    pub faults: Vec<Fault>,
    /// The time for which traffic runs before the measured interval.
    pub warmup: Nanos,
    /// The length of the measured interval.
    pub duration: Nanos,
    /// The time for which traffic runs after the measured interval, so that late requests can
    /// finish.
    pub cooldown: Nanos,
}

/// What a run keeps of its packets, flows and ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Records {
    /// All of them, so that memory grows with the run's length.
    #[default]
    All,
    /// Their statistics. Only the simulator has this.
    Figures,
}

impl Scenario {
    /// The number of bulk flows and closed loops of all traffic.
    pub fn flows(&self) -> u64 {
        self.traffic.iter().map(|traffic| u64::from(traffic.kind.flows())).sum()
    }

    /// Describes the cell: its path and its values on other axes of the grid.
    pub fn cell(&self) -> String {
        self.path.to_string() + &in_words(&self.labels)
    }

    /// The time for which traffic runs: warm-up, measured interval and cool-down.
    pub fn length(&self) -> Nanos {
        self.warmup + self.duration + self.cooldown
    }

    /// The number of classes of its traffic, at least 1.
    pub fn classes(&self) -> u8 {
        self.traffic.iter().map(|t| t.class).max().unwrap_or(0).saturating_add(1)
    }

    /// Returns the scenario with `duration` as the measured interval. Traffic that lasted to the
    /// old end lasts to the new one; whatever is later than the new end is cut, also the restart of
    /// a process.
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

    /// The names of the bundles of `arm` in records: `b`, `b2` and so on for the sites, then
    /// `outer`.
    pub fn bundles(&self, arm: &Arm) -> Vec<String> {
        let sites = if let Sendbox::Bundle(_) = arm.sendbox { self.sites } else { 0 };
        let own = (1..=sites).map(|n| if n == 1 { "b".to_owned() } else { format!("b{n}") });
        own.chain(arm.outer.map(|_| "outer".to_owned())).collect()
    }

    /// The highest rate that the path's bottlenecks have together at any time; of a trace the mean.
    pub fn highest_rate(&self) -> Rate {
        let Conditions { capacity, ways, .. } = &self.conditions;
        let bps = if ways.is_empty() {
            match capacity {
                Capacity::Steps(steps) => steps.iter().map(|(_, rate)| rate.as_bps()).max(),
                _ => None,
            }
        } else {
            ways.iter().map(|way| way.rate.as_bps()).reduce(u64::saturating_add)
        };
        bps.map_or(self.path.rate, |bps| Rate::from_bps(bps.max(self.path.rate.as_bps())))
    }

    /// The measured interval, from the start of the run.
    pub fn measured(&self) -> std::ops::Range<Nanos> {
        self.warmup..self.warmup + self.duration
    }
}

/// Describes the labels of a cell, as a continuation of its path: `, cubic, 10 flows, fifo 1 bdp`.
pub(crate) fn in_words(labels: &BTreeMap<String, String>) -> String {
    let word = |(key, value): (&String, &String)| match key.as_str() {
        "flows" if value == "1" => ", 1 flow".to_owned(),
        "flows" => format!(", {value} flows"),
        "load" => format!(", load {value}"),
        "mix" => format!(", {value} flows"),
        "ways" if value == "1" => ", 1 way".to_owned(),
        "ways" => format!(", {value} ways"),
        "queue" | "congestion" | "rtts" => format!(", {value}"),
        // Keys of the scenario that were set along an axis. The path has its own words.
        "path.rate" | "path.rtt" => String::new(),
        _ => {
            let tables = key.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
            format!(", {} {value}", &key[tables..])
        }
    };
    labels.iter().map(word).collect()
}

/// The version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IpVersion {
    /// IP version 4.
    V4,
    /// IP version 6.
    V6,
}

/// The path between the sites. Its bottleneck is in the direction from site A to site B; the other
/// direction has the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The round-trip time of the empty path; each direction takes half of it.
    pub rtt: Nanos,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s, {} ms", self.rate.as_mbps_f64(), self.rtt.as_millis_f64())
    }
}

/// An arm: one of the compared alternatives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The name: letters, digits, `-` and `_`.
    pub name: String,
    /// The sendbox of the arm.
    pub sendbox: Sendbox,
    /// A program of others in the sendbox's place, with its arguments; empty for none. The kernel
    /// forwards there, and the program may control its queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// The queue at the bottleneck.
    pub queue: Queue,
    /// When the sendbox begins to control its bundle. Until then it forwards.
    #[serde(default)]
    pub start: Nanos,
    /// The bundle of an outer sendbox, which contains all traffic that leaves the inner sendboxes.
    /// Its receivebox comes before theirs.
    pub outer: Option<Bundle>,
}

impl Arm {
    /// The policy of the arm's boxes that only the kernel supports, if there is one.
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

/// The sendbox of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a scenario has few of them")]
pub enum Sendbox {
    /// It only forwards and has no bundle: the network as it is today.
    Forward,
    /// It controls one bundle: all traffic from its site to site B.
    Bundle(Bundle),
    /// `forebay link` takes its place and queues all traffic that leaves the site at a known rate.
    Link(LinkBox),
}

/// The configuration of `forebay link`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkBox {
    /// The queue for the traffic that leaves the site.
    pub queue: Queue,
    /// The rate at which the traffic leaves.
    pub rate: Rate,
    /// Whether the box polls its ports and never sleeps; ignored in virtual time.
    #[serde(default)]
    pub busy_poll: bool,
}

/// The configuration of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// The bundle's queue.
    pub queue: Queue,
    /// The rate controller.
    pub controller: ControllerKind,
    /// Whether elastic cross traffic switches the bundle to pass-through.
    pub cross_traffic: Detection,
    /// Whether multipath imbalance opens the bundle.
    pub multipath: Detection,
    /// Whether a guard tests that holding the bundle back helps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guard: bool,
    /// The lowest rate that the bundle is limited to; the controller's own if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rate: Option<Rate>,
    /// The highest rate that the bundle is limited to; the controller's own if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<Rate>,
    /// The shares of its classes with the policy `weighted`.
    #[serde(default, skip_serializing_if = "ClassShares::is_empty")]
    pub classes: ClassShares,
}
