//! The lines of a stored run.

use std::collections::BTreeMap;

use forebay_records::packet_log::Record;
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::super::{
    Event, FaultRecord, HopCounters, Interval, Phase, Progress, Request, RoundTrip, Run, Tick,
};

/// The version of the format. It increases with any change that an older reader would misread.
pub(super) const VERSION: u32 = 2;

/// The oldest version that this program reads, from before packets had a flow.
const OLDEST: u32 = 1;

/// The number of packets on one line.
pub(super) const BATCH: usize = 512;

/// A line: a JSON object with one key, the kind of record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first line, and only that one.
    Run(Header),
    Request(Request),
    Progress(Progress),
    RoundTrip(RoundTrip),
    Tick(Tick),
    Event(Event),
    Hop(HopCounters),
    Phase(Phase),
    Fault(FaultRecord),
    /// Intervals are for other readers. They follow from the packets, so this program skips them.
    Interval(Interval),
    Bottleneck(Vec<Packet>),
    Sendbox(Vec<Packet>),
}

/// The description of a run, with the number of records of each kind that must follow.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    version: u32,
    arm: String,
    seed: u64,
    /// Absent in files from before grids had more axes than the path's.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    start: u64,
    end: u64,
    rate: u64,
    base_rtt: u64,
    bundle_source: Option<u8>,
    #[serde(default)]
    link_header: u64,
    pub(super) records: Counts,
}

/// The number of records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    requests: u64,
    progress: u64,
    round_trips: u64,
    ticks: u64,
    /// Absent in files from before events were recorded.
    #[serde(default)]
    events: u64,
    hops: u64,
    /// Absent in files from before there were phases.
    #[serde(default)]
    phases: u64,
    /// Absent in files from before there were faults.
    #[serde(default)]
    faults: u64,
    /// Absent in files from before intervals were written.
    #[serde(default)]
    intervals: u64,
    bottleneck: u64,
    sendbox: u64,
}

impl Counts {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            requests: run.requests.len() as u64,
            progress: run.progress.len() as u64,
            round_trips: run.round_trips.len() as u64,
            ticks: run.ticks.len() as u64,
            events: run.events.len() as u64,
            hops: run.hops.len() as u64,
            phases: run.phases.len() as u64,
            faults: run.faults.len() as u64,
            intervals: super::super::intervals::count(run),
            bottleneck: run.bottleneck.len() as u64,
            sendbox: run.sendbox.len() as u64,
        }
    }

    /// Counts the records of a loaded run, of which intervals are not kept.
    pub(super) fn read(run: &Run, intervals: u64) -> Self {
        Self { intervals, ..Self::of(run) }
    }

    /// The plural name and the number of each kind.
    pub(super) fn by_kind(&self) -> [(&'static str, u64); 11] {
        [
            ("requests", self.requests),
            ("progress records", self.progress),
            ("round trips", self.round_trips),
            ("ticks", self.ticks),
            ("events", self.events),
            ("hops", self.hops),
            ("phases", self.phases),
            ("faults", self.faults),
            ("intervals", self.intervals),
            ("bottleneck packets", self.bottleneck),
            ("sendbox packets", self.sendbox),
        ]
    }
}

impl Header {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            version: VERSION,
            arm: run.arm.clone(),
            seed: run.seed,
            labels: run.labels.clone(),
            start: run.start.0,
            end: run.end.0,
            rate: run.rate.as_bps(),
            base_rtt: run.base_rtt.0,
            bundle_source: run.bundle_source,
            link_header: run.link_header.0,
            records: Counts::of(run),
        }
    }

    /// Creates an empty run of this description, or says what is wrong with it.
    pub(super) fn run(self) -> Result<Run, String> {
        if !(OLDEST..=VERSION).contains(&self.version) {
            let v = self.version;
            return Err(format!("format version {v}, this program reads {OLDEST} to {VERSION}"));
        }
        if self.rate == 0 {
            return Err("the bottleneck's rate is zero".to_owned());
        }
        if self.end <= self.start {
            return Err("measuring ends before it begins".to_owned());
        }
        Ok(Run {
            arm: self.arm,
            seed: self.seed,
            labels: self.labels,
            start: Nanos(self.start),
            end: Nanos(self.end),
            rate: Rate::from_bps(self.rate),
            base_rtt: Nanos(self.base_rtt),
            bundle_source: self.bundle_source,
            link_header: Bytes(self.link_header),
            ..Run::default()
        })
    }
}

/// A packet: when it left, how long it waited, its length in bytes, its source, its
/// [`Record::flags`] and its flow. Times are in nanoseconds. It left so long after the packet
/// before it on the line; the first counts from the clock's origin.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Packet(i64, u64, u64, u8, u8, #[serde(default)] u16);

/// Packs up to [`BATCH`] records. Departures are in order, so the differences are short; a negative
/// difference is stored as well.
pub(super) fn pack(records: &[Record]) -> Vec<Packet> {
    let mut before = 0;
    let mut pack = |r: &Record| {
        let gap = r.time.0.wrapping_sub(before).cast_signed();
        before = r.time.0;
        Packet(gap, r.sojourn.0, r.len.0, r.source, r.flags(), r.flow)
    };
    records.iter().map(&mut pack).collect()
}

/// Unpacks records from [`pack`].
pub(super) fn unpack(packets: Vec<Packet>) -> impl Iterator<Item = Record> {
    packets.into_iter().scan(0u64, |time, Packet(gap, sojourn, len, source, flags, flow)| {
        *time = time.wrapping_add_signed(gap);
        Some(Record {
            time: Nanos(*time),
            sojourn: Nanos(sojourn),
            len: Bytes(len),
            source,
            flow,
            ..Record::of_flags(flags)
        })
    })
}
