use std::collections::BTreeMap;

use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

use super::percentile::rounded;
use super::{
    ByClass, Conservation, Delay, EstimateErrors, Estimates, Requests, RoundTrips, Slowdown,
    Slowdowns, WhoWaits, at_sendbox,
};
use crate::results::{HopCounters, QueueTally, Run, Tally};

/// The figures of one run for machine use; the fields' names contain the units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The name of the arm.
    pub arm: String,
    /// The seed of the run.
    pub seed: u64,
    /// The cell's values on the axes of the experiment's grid, except those of the path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The length of the measured interval.
    pub duration_s: f64,
    /// The bottleneck's rate.
    pub rate_mbps: f64,
    /// The round-trip time of the empty path.
    pub base_rtt_ms: f64,
    /// The bytes that requests asked for in the measured interval, over its length. With
    /// heavy-tailed sizes this differs between seeds, and from the configured load.
    pub requested_mbps: f64,
    /// The payload that reached receivers, over all traffic.
    pub goodput_mbps: f64,
    /// The payload that reached receivers, by the traffic's name.
    pub goodput_by_traffic_mbps: BTreeMap<String, f64>,
    /// The delay in the bottleneck's queue; `None` if no packet left it.
    pub bottleneck_queue_ms: Option<Delay>,
    /// The delay in the sendbox's queues; `None` if the sendbox only forwards. With the kernel's
    /// queues, each tick counts once, with the backlog and the rate at that time.
    pub sendbox_queue_ms: Option<Delay>,
    /// The delays of packets of small and of large transfers; `None` if the records do not tell
    /// flows apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who_waits: Option<WhoWaits>,
    /// The delays of L4S traffic and of other traffic; `None` without L4S traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l4s: Option<ByL4s>,
    /// The outcome of the requests.
    pub requests: Requests,
    /// The slowdown of the requests by size class.
    pub slowdown: ByClass<Slowdown>,
    /// The closed-loop round trips by the traffic's name.
    pub round_trips_ms: BTreeMap<String, RoundTrips>,
    /// The sendbox's estimates compared with the truth; `None` without a controller.
    pub estimates: Option<Estimates>,
    /// The packet counts by hop, over the whole run including warm-up.
    pub hops: Vec<HopCounters>,
    /// Whether the packet counts balance.
    pub conservation: Conservation,
}

impl Summary {
    /// Summarises `run`, whose slowdowns and estimate errors are given.
    pub(super) fn of(run: &Run, slowdowns: &ByClass<Slowdowns>, errors: &EstimateErrors) -> Self {
        let over = |bytes| Rate::from_bytes_over(Bytes(bytes), run.duration()).as_mbps_f64();
        let mbps = |bytes| rounded(over(bytes), 3);
        let by_traffic = progress(run);
        let requests = Requests::of(run);
        let counted = |queue: fn(&Tally) -> &QueueTally| {
            run.tally.as_ref().map(|tally| Delay::counted(&queue(tally).all()))
        };
        let delay = |records: &[Record]| Delay::of(records, run.start, run.end);
        Self {
            arm: run.arm.clone(),
            seed: run.seed,
            labels: run.labels.clone(),
            duration_s: rounded(run.duration().as_secs_f64(), 3),
            rate_mbps: run.rate.as_mbps_f64(),
            base_rtt_ms: run.base_rtt.as_millis_f64(),
            requested_mbps: mbps(requests.bytes),
            goodput_mbps: mbps(by_traffic.values().copied().fold(0, u64::saturating_add)),
            goodput_by_traffic_mbps: by_traffic
                .into_iter()
                .map(|(traffic, bytes)| (traffic.to_owned(), mbps(bytes)))
                .collect(),
            bottleneck_queue_ms: counted(|tally| &tally.bottleneck)
                .unwrap_or_else(|| delay(&run.bottleneck)),
            sendbox_queue_ms: counted(|tally| &tally.sendbox)
                .unwrap_or_else(|| delay(&at_sendbox(run))),
            who_waits: None,
            l4s: ByL4s::of(run),
            requests,
            slowdown: slowdowns.map(Slowdowns::figures),
            round_trips_ms: RoundTrips::of(run),
            estimates: errors.figures(),
            hops: run.hops.clone(),
            conservation: Conservation::of(&run.hops),
        }
    }
}

/// The queues' delay for L4S traffic, recognised by the ECN field on arrival, and for other
/// traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByL4s {
    /// The delay of L4S traffic at the bottleneck.
    pub bottleneck_l4s_ms: Option<Delay>,
    /// The delay of other traffic at the bottleneck.
    pub bottleneck_classic_ms: Option<Delay>,
    /// The delay of L4S traffic at the sendbox.
    pub sendbox_l4s_ms: Option<Delay>,
    /// The delay of other traffic at the sendbox.
    pub sendbox_classic_ms: Option<Delay>,
    /// The signals of the bottleneck's queue to L4S traffic, and to other traffic.
    #[serde(default)]
    pub bottleneck_signals: [Signals; 2],
    /// The signals of the sendbox's queue to L4S traffic, and to other traffic.
    #[serde(default)]
    pub sendbox_signals: [Signals; 2],
}

/// The packets that a queue marked or dropped in the measured interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    /// The number of packets that the queue marked.
    pub marked: u64,
    /// The number of packets that the queue dropped.
    pub dropped: u64,
}

impl Signals {
    fn of(run: &Run, records: &[Record], l4s: bool) -> Self {
        let held = |r: &&Record| r.l4s == l4s && (run.start..run.end).contains(&r.time);
        records.iter().filter(held).fold(Self::default(), |sum, r| Self {
            marked: sum.marked + u64::from(r.marked),
            dropped: sum.dropped + u64::from(r.fate == Fate::Dropped),
        })
    }
}

impl ByL4s {
    fn counted(tally: &Tally) -> Option<Self> {
        let (bottleneck, sendbox) = (&tally.bottleneck, &tally.sendbox);
        let signals = |queue: &QueueTally| {
            [0, 1].map(|n| Signals { marked: queue.marked[n], dropped: queue.dropped[n] })
        };
        (bottleneck.saw_l4s || sendbox.saw_l4s).then(|| Self {
            bottleneck_l4s_ms: Delay::counted(&bottleneck.waits[0]),
            bottleneck_classic_ms: Delay::counted(&bottleneck.waits[1]),
            sendbox_l4s_ms: Delay::counted(&sendbox.waits[0]),
            sendbox_classic_ms: Delay::counted(&sendbox.waits[1]),
            bottleneck_signals: signals(bottleneck),
            sendbox_signals: signals(sendbox),
        })
    }

    fn of(run: &Run) -> Option<Self> {
        if let Some(tally) = &run.tally {
            return Self::counted(tally);
        }
        let of = |records, l4s| Delay::of_those(records, run.start, run.end, |r| r.l4s == l4s);
        let signals = |records: &[Record]| [true, false].map(|l4s| Signals::of(run, records, l4s));
        let any = run.bottleneck.iter().chain(&run.sendbox).any(|r| r.l4s);
        any.then(|| Self {
            bottleneck_l4s_ms: of(&run.bottleneck, true),
            bottleneck_classic_ms: of(&run.bottleneck, false),
            sendbox_l4s_ms: of(&run.sendbox, true),
            sendbox_classic_ms: of(&run.sendbox, false),
            bottleneck_signals: signals(&run.bottleneck),
            sendbox_signals: signals(&run.sendbox),
        })
    }
}

/// The payload bytes by traffic in the measured interval.
///
/// A record stands for the interval that ends at its time. So a record at `start` is out and one at
/// `end` is in; one that spans a border counts where it ends.
fn progress(run: &Run) -> BTreeMap<&str, u64> {
    let mut bytes = BTreeMap::new();
    for p in run.progress.iter().filter(|p| run.start.0 < p.time && p.time <= run.end.0) {
        let sum: &mut u64 = bytes.entry(p.traffic.as_str()).or_default();
        *sum = sum.saturating_add(p.bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use crate::results::Progress;
    use forebay_units::Nanos;

    #[test]
    fn goodput_counts_intervals_by_their_end() {
        let progress = |traffic: &str, time, bytes| Progress {
            traffic: traffic.into(),
            flow: 0,
            time: Nanos::from_millis(time).0,
            bytes,
        };
        let run = Run {
            start: Nanos::from_secs(1),
            end: Nanos::from_secs(3),
            rate: Rate::from_mbps(8),
            progress: vec![
                progress("requests", 1000, 999_999),
                progress("requests", 1100, 250_000),
                progress("bulk", 3000, 750_000),
                progress("bulk", 3001, 999_999),
            ],
            ..Run::default()
        };
        // 1 MB in 2 s is 4 Mbit/s.
        let summary = Analysis::of(&run).summary;
        assert_eq!((summary.goodput_mbps, summary.duration_s), (4.0, 2.0));
        let shares: Vec<_> = summary.goodput_by_traffic_mbps.into_iter().collect();
        assert_eq!(shares, [("bulk".to_owned(), 3.0), ("requests".to_owned(), 1.0)]);
        assert_eq!((summary.bottleneck_queue_ms, summary.estimates), (None, None));
        assert!(!summary.conservation.ok, "no counters, no proof");
    }

    #[test]
    fn a_summary_survives_json() {
        let run = Run { rate: Rate::from_mbps(8), end: Nanos::from_secs(1), ..Run::default() };
        let summary = Analysis::of(&run).summary;
        let json = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    }
}
