//! What an engine hands out, whatever the engine: the raw record of a run.
//!
//! All times are on one clock (`CLOCK_MONOTONIC`, or virtual time). Analysis reads these records
//! and nothing else, so a figure means the same in every engine.

mod intervals;
pub mod store;

pub use intervals::{Interval, intervals};

pub use forebay_records::{Event, HopCounters, Tick, Value};

use std::collections::BTreeMap;

use forebay_records::packet_log::Record;
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// One request of the request workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its place in the schedule.
    pub id: u64,
    /// The connection that served it.
    pub connection: u32,
    /// Bytes of the answer.
    pub size: u64,
    /// When the client asked, in nanoseconds.
    pub start: u64,
    /// When the answer's last byte was read; `None` if the run ended first.
    pub end: Option<u64>,
}

/// Bytes that arrived at a receiver of a named traffic in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The traffic's name in the scenario.
    pub traffic: String,
    /// Which of its flows.
    pub flow: u32,
    /// The end of the interval, in nanoseconds.
    pub time: u64,
    /// Payload bytes read in it.
    pub bytes: u64,
}

/// One round trip of a closed-loop UDP request and response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// The traffic's name in the scenario.
    pub traffic: String,
    /// Which of its loops.
    pub flow: u32,
    /// When the request was sent, in nanoseconds.
    pub start: u64,
    /// When the response came, `None` if it was given up as lost.
    pub end: Option<u64>,
}

/// A named part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it began, in nanoseconds.
    pub start: u64,
    /// When it ended, in nanoseconds.
    pub stop: u64,
}

/// A process that was killed in the middle of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// The process, as the scenario calls it.
    pub process: String,
    /// When it was killed, in nanoseconds; it did nothing after that.
    pub killed: u64,
    /// When it was ready again, in nanoseconds; `None` if it was not before the run ended.
    pub ready: Option<u64>,
}

/// Everything measured in one run of one arm with one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The arm's name.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// What its cell has on the axes of the experiment's grid, those of the path apart.
    pub labels: BTreeMap<String, String>,
    /// When measuring began, after the warm-up.
    pub start: Nanos,
    /// When measuring ended.
    pub end: Nanos,
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The round-trip time of the empty path.
    pub base_rtt: Nanos,
    /// Every request asked for.
    pub requests: Vec<Request>,
    /// What receivers read, by interval.
    pub progress: Vec<Progress>,
    /// Closed-loop round trips.
    pub round_trips: Vec<RoundTrip>,
    /// Every packet through the bottleneck's queue.
    pub bottleneck: Vec<Record>,
    /// Whose each packet of `bottleneck` is, in the same order: the number of its traffic in the
    /// scenario, `None` if it is no data of one. Empty where the engine cannot tell. Not stored: of a
    /// run that is read back it is empty.
    pub whose: Vec<Option<u8>>,
    /// The `source` that the bundle's packets have in the bottleneck's log, where cross traffic has
    /// others; `None` if every packet is the bundle's.
    pub bundle_source: Option<u8>,
    /// Every packet through the sendbox's queues; empty in arms whose sendbox only forwards.
    pub sendbox: Vec<Record>,
    /// The controllers' ticks.
    pub ticks: Vec<Tick>,
    /// What the controllers decided and noticed, with the reasons, in the order of time.
    pub events: Vec<Event>,
    /// Packet accounts, a hop each.
    pub hops: Vec<HopCounters>,
    /// The scenario's phases.
    pub phases: Vec<Phase>,
    /// What went wrong on purpose, in the order of time.
    pub faults: Vec<FaultRecord>,
}

impl Run {
    /// How long was measured.
    pub fn duration(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }

    /// The time that a request for `size` bytes takes on the empty path, the base of its slowdown:
    /// one round trip and the bytes at the bottleneck's rate (the Bundler evaluation's own oracle).
    pub fn ideal(&self, size: u64) -> Nanos {
        self.base_rtt.saturating_add(self.rate.time_for(Bytes(size)))
    }
}
