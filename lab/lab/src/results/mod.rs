//! The raw record of a run, in the same form for every engine.
//!
//! All times are on one clock (`CLOCK_MONOTONIC`, or virtual time). The analysis reads only these
//! records, so a figure has the same meaning for every engine.

pub mod export;
pub mod external;
mod intervals;
pub mod pcapng;
pub mod store;
mod tally;

pub use intervals::{Interval, intervals};
pub use tally::{Histogram, LoopTally, MAX_EVENTS, QueueTally, Tally};

pub use forebay_records::{Event, HopCounters, Tick, Value};

use std::collections::BTreeMap;

use forebay_records::packet_log::Record;
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// A request of the request workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The index in the schedule.
    pub id: u64,
    /// The connection that served it.
    pub connection: u32,
    /// The size of the answer in bytes.
    pub size: u64,
    /// The time of the request in nanoseconds.
    pub start: u64,
    /// The time at which the answer's last byte was read; `None` if the run ended first.
    pub end: Option<u64>,
}

/// Bytes that arrived at a receiver of a traffic in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The name of the traffic in the scenario.
    pub traffic: String,
    /// The index of the flow.
    pub flow: u32,
    /// The end of the interval, in nanoseconds.
    pub time: u64,
    /// The number of payload bytes read in the interval.
    pub bytes: u64,
}

/// The state of a bulk TCP flow's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderState {
    /// The time in nanoseconds.
    pub time: u64,
    /// The index of the traffic in the scenario.
    pub traffic: usize,
    /// The index of the flow.
    pub flow: u32,
    /// The congestion window in segments.
    pub window: u32,
    /// The number of segments in flight.
    pub in_flight: u32,
    /// The smoothed round-trip time in nanoseconds; `None` before the first sample.
    pub rtt: Option<u64>,
    /// The number of segments retransmitted so far.
    pub retransmissions: u64,
}

/// A round trip of a closed-loop UDP request and its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// The name of the traffic in the scenario.
    pub traffic: String,
    /// The index of the loop.
    pub flow: u32,
    /// The time of the request in nanoseconds.
    pub start: u64,
    /// The time of the response; `None` if it was given up as lost.
    pub end: Option<u64>,
}

/// A named part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The name of the phase.
    pub name: String,
    /// The start in nanoseconds.
    pub start: u64,
    /// The end in nanoseconds.
    pub stop: u64,
}

/// A process that was killed during the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// The name of the process in the scenario.
    pub process: String,
    /// The time of its death in nanoseconds.
    pub killed: u64,
    /// The time at which it was ready again, in nanoseconds; `None` if it was not before the run
    /// ended.
    pub ready: Option<u64>,
}

/// All that was measured in one run of one arm with one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The name of the arm.
    pub arm: String,
    /// The seed of the run.
    pub seed: u64,
    /// The cell's values on the axes of the experiment's grid, except those of the path.
    pub labels: BTreeMap<String, String>,
    /// The start of the measured interval.
    pub start: Nanos,
    /// The end of the measured interval.
    pub end: Nanos,
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The round-trip time of the empty path.
    pub base_rtt: Nanos,
    /// All requests of the run.
    pub requests: Vec<Request>,
    /// The bytes that receivers read, by interval.
    pub progress: Vec<Progress>,
    /// The states of bulk TCP flows every 100 ms. Empty if the engine does not know them. They are
    /// not stored, so a loaded run has none.
    pub senders: Vec<SenderState>,
    /// Closed-loop round trips.
    pub round_trips: Vec<RoundTrip>,
    /// All packets through the bottleneck's queue.
    pub bottleneck: Vec<Record>,
    /// The index of the traffic in the scenario to which each packet of `bottleneck` belongs,
    /// `None` if it carries no data of one. Empty if the engine does not know. It is not stored, so
    /// a loaded run has none.
    pub whose: Vec<Option<u8>>,
    /// The `source` of the bundle's packets in the bottleneck's log, where cross traffic has
    /// others; `None` if all packets are the bundle's.
    pub bundle_source: Option<u8>,
    /// The bytes of a packet in `bottleneck` that boxes do not count: those of its link-layer
    /// header. Zero in the simulator, whose boxes count packets as its links do.
    pub link_header: Bytes,
    /// All packets through the sendbox's queues; empty in arms whose sendbox only forwards.
    pub sendbox: Vec<Record>,
    /// The controllers' ticks.
    pub ticks: Vec<Tick>,
    /// The controllers' decisions and observations with their reasons, in the order of time.
    pub events: Vec<Event>,
    /// The packet counts of each hop.
    pub hops: Vec<HopCounters>,
    /// The scenario's phases.
    pub phases: Vec<Phase>,
    /// The faults in the order of time.
    pub faults: Vec<FaultRecord>,
    /// The statistics of a run with `records = "figures"`, which has no packets, round trips,
    /// ticks or states of senders. Its `progress` is added up over flows and spans. It cannot be
    /// stored.
    pub tally: Option<Box<Tally>>,
}

impl Run {
    /// The length of the measured interval.
    pub fn duration(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }

    /// The time that a request for `size` bytes takes on the empty path, the base of its slowdown:
    /// one round trip and the bytes at the bottleneck's rate (as in the Bundler evaluation).
    pub fn ideal(&self, size: u64) -> Nanos {
        self.base_rtt.saturating_add(self.rate.time_for(Bytes(size)))
    }
}
