//! One cell of the map: a path, its traffic and the policy at the sendbox, as a scenario file.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::family::Family;

/// The measured part of a run is at least this long, in seconds.
const SHORTEST: f64 = 12.0;
/// The measured part is at least this many round trips of the path long.
const ROUND_TRIPS: f64 = 60.0;
/// The measured part is at most this long, in seconds.
const MAX_MEASURED_S: f64 = 60.0;
/// The bits that a run may carry: it bounds what a fast path costs.
const BITS: f64 = 1.2e9;
/// The time before anything is measured where others share the bottleneck, in seconds.
const SHARED: f64 = 10.0;
/// The shortest measured part of a path that is so fast that [`BITS`] would end it sooner.
const FAST: f64 = 4.0;

/// One path with its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The cell's number in its map, from zero.
    pub number: u32,
    /// The family that the path was drawn from.
    pub family: Family,
    /// What the bundle carries.
    pub workload: Workload,
    /// The policy at the sendbox, and at the bottleneck in the arm that has it there.
    pub policy: Policy,
    /// The mean rate of the path, in Mbit/s.
    pub rate: f64,
    /// The round-trip time of the empty path, in ms.
    pub rtt: f64,
    /// What is particular about the path, in a few words.
    pub what: String,
    /// Whether traffic of others shares the bottleneck: then the bundle's share is judged.
    pub shared: bool,
    /// The lines of `[path]` without the queue.
    pub(crate) path: String,
    /// The kind of the bottleneck's queue.
    pub(crate) queue: &'static str,
    /// The limit of the bottleneck's queue in packets.
    pub(crate) buffer: u32,
    /// The lines of `[[traffic]]`, `[[fault]]` and so on.
    pub(crate) rest: String,
    /// How many sites send.
    pub(crate) sites: u32,
    /// Whether a second pair of boxes stands around those of the sites.
    pub(crate) nested: bool,
    /// A trace in mahimahi's format, which the path names.
    pub(crate) trace: Option<Vec<u32>>,
    /// The shortest useful measured part, in seconds, if the family asks for one.
    pub(crate) at_least: f64,
}

/// What a bundle carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Requests and a bulk flow or a few.
    Mix,
    /// Requests and nothing else.
    Requests,
    /// Bulk flows only.
    Bulk,
    /// Closed loops of small datagrams beside requests and a bulk flow.
    RealTime,
    /// Few requests or datagrams: less than a tenth of the path.
    Thin,
}

impl Workload {
    /// The name on pages and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::Requests => "requests",
            Self::Bulk => "bulk",
            Self::RealTime => "real_time",
            Self::Thin => "thin",
        }
    }
}

/// The queueing policy of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Stochastic fairness queueing, the default.
    Sfq,
    /// Flow queueing with CoDel.
    FqCodel,
    /// First in, first out.
    Fifo,
    /// PIE on one queue.
    Pie,
}

impl Policy {
    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sfq => "sfq",
            Self::FqCodel => "fq_codel",
            Self::Fifo => "fifo",
            Self::Pie => "pie",
        }
    }
}

/// The full packets in this many kilobits.
pub(crate) fn packets(kilobits: f64) -> f64 {
    kilobits * 1e3 / 8.0 / 1514.0
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, policy, rate, rtt, what, .. } = self;
        write!(
            f,
            "{} Mbit/s, {} ms, {what}; {} by {}",
            forebay_picture::number::figure(*rate),
            forebay_picture::number::figure(*rtt),
            workload.name(),
            policy.name()
        )
    }
}

impl Cell {
    /// Full packets that the path carries in a second.
    pub(crate) fn packets_per_second(&self) -> f64 {
        packets(self.rate * 1e3)
    }

    /// The file name of the cell's scenario.
    pub fn file_name(&self) -> String {
        format!("{:04}-{}.toml", self.number, self.family.name())
    }

    fn trace_name(&self) -> String {
        format!("{:04}-{}.trace", self.number, self.family.name())
    }

    /// The length of the measured part, in whole seconds.
    fn duration(&self) -> f64 {
        let wanted = (self.rtt * 1e-3 * ROUND_TRIPS).max(SHORTEST).max(self.at_least);
        let affordable = (BITS / (self.rate * 1e6)).max(FAST).max(self.at_least);
        // A slow path carries little, so that longer runs cost nothing and say more.
        let cheap = (0.1 * affordable).min(30.0);
        wanted.max(cheap).min(affordable).min(MAX_MEASURED_S).ceil()
    }

    /// The time before anything is measured, in whole seconds: starts are judged apart, and beside
    /// traffic of others a bundle has ten seconds to find its share.
    fn warm_up(&self) -> f64 {
        if self.shared {
            return SHARED;
        }
        (self.rtt * 1e-3 * 20.0).clamp(3.0, 10.0).min(self.duration()).ceil()
    }

    /// Returns the scenario file. Without `guard`, Forebay's bundles have none.
    pub fn scenario(&self, seeds: RangeInclusive<u32>, guard: bool) -> String {
        let mut text = String::new();
        let seeds: Vec<String> = seeds.map(|seed| seed.to_string()).collect();
        let policy = self.policy.name();
        // Both queues hold the same: a second of the path, and no less than flows need.
        let packets = self.packets_per_second().clamp(200.0, 10_000.0) as u32;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# {self}\nname = \"cell-{:04}\"\nwarmup = \"{} s\"\nduration = \"{} s\"\n\
             cooldown = \"3 s\"\nseeds = [{}]\n",
            self.number,
            self.warm_up(),
            self.duration(),
            seeds.join(", ")
        );
        if self.sites > 1 {
            let _ = writeln!(text, "sites = {}", self.sites);
        }
        let queue = |limit| {
            format!("queue = {{ kind = \"{}\", limit = \"{limit} packets\" }}\n", self.queue)
        };
        let _ = write!(text, "\n[path]\n{}{}", self.path, queue(self.buffer));
        if self.trace.is_some() {
            let _ = writeln!(text, "trace = \"{}\"", self.trace_name());
        }
        let _ = write!(text, "\n{}", self.rest);
        let guard = if guard { "" } else { ", guard = false" };
        let outer = if self.nested {
            format!("outer = {{ policy = \"{policy}\", limit = \"{packets} packets\"{guard} }}\n")
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "\n[[arm]]\nname = \"status_quo\"\nsendbox = \"forward\"\n\
             \n[[arm]]\nname = \"control\"\nsendbox = \"forward\"\n{}\
             \n[[arm]]\nname = \"in_network\"\nsendbox = \"forward\"\n\
             queue = {{ kind = \"{policy}\", limit = \"{packets} packets\" }}\n\
             \n[[arm]]\nname = \"forebay\"\n\
             sendbox = {{ policy = \"{policy}\", limit = \"{packets} packets\"{guard} }}\n{outer}",
            queue(self.buffer + 1)
        );
        text
    }

    /// Writes the scenario, and the trace that it names, into `dir`; the scenario's path.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(
        &self,
        dir: &Path,
        seeds: RangeInclusive<u32>,
        guard: bool,
    ) -> io::Result<PathBuf> {
        if let Some(trace) = &self.trace {
            let mut lines = String::new();
            for time in trace {
                let _ = writeln!(lines, "{time}");
            }
            fs::write(dir.join(self.trace_name()), lines)?;
        }
        let file = dir.join(self.file_name());
        fs::write(&file, self.scenario(seeds, guard))?;
        Ok(file)
    }
}
