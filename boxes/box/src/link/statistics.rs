//! What an operator wants to know of a link: RFC 9332 section 2.5.2.2 for the two queues of
//! DualPI2, in every second and altogether.

use forebay_dataplane::Packet;
use forebay_queue::dualpi2::{ByEcn, Counters, Delays, Interval, Overload};
use forebay_queue::{DualPi2, Ecn, Qdisc, TokenBucket};
use forebay_records::Late;
use forebay_units::{Bytes, Nanos, Rate};
use serde::Serialize;

use crate::Error;
use crate::forward::{Counts, Direction, DirectionQueues};
use crate::logs::Lines;
use crate::policy::Queue;

/// A direction, over an interval or from the start to the end. Times are in nanoseconds.
#[derive(Debug, Serialize)]
struct Record {
    /// The kind of record: `interval` or `total`.
    kind: &'static str,
    direction: &'static str,
    /// The end of the interval.
    time: u64,
    /// The length of the interval.
    length: u64,
    /// The rate of the link in bits per second.
    rate: Option<u64>,
    /// The packets that left. `bytes` are their bytes on the link, `marked` those that a queue
    /// marked, `dropped` the packets that a queue dropped.
    packets: u64,
    bytes: u64,
    marked: u64,
    dropped: u64,
    /// The packets that wait at the end, and below their bytes.
    backlog_packets: u64,
    backlog_bytes: u64,
    /// The lateness of packets; `None` if the shaper held none.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<Late>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dualpi2: Option<DualRecord>,
}

#[derive(Debug, Serialize)]
struct DualRecord {
    /// The base probability p' at the end.
    probability: f64,
    low_latency: QueueRecord,
    classic: QueueRecord,
    overload: OverloadRecord,
}

#[derive(Debug, Serialize)]
struct QueueRecord {
    arrived: EcnRecord,
    presented: EcnRecord,
    forwarded: EcnRecord,
    marked: EcnRecord,
    dropped: EcnRecord,
    bytes: u64,
    delay: DelayRecord,
}

/// Packets by the ECN field with which they arrived.
#[derive(Debug, Serialize)]
struct EcnRecord {
    not_ect: u64,
    ect1: u64,
    ect0: u64,
    ce: u64,
}

/// Delays in nanoseconds. The 99th percentile of a total is the worst of the intervals.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct DelayRecord {
    mean: u64,
    p99: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
struct OverloadRecord {
    episodes: u64,
    /// The start of the current episode, or else of the last one.
    start: Option<u64>,
    duration: Option<u64>,
    lasts: bool,
}

/// The sums for the totals of a direction.
#[derive(Debug, Default)]
struct Kept {
    counts: Counts,
    low_latency: KeptDelays,
    classic: KeptDelays,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeptDelays {
    packets: u64,
    sum: u128,
    p99: Nanos,
    max: Nanos,
}

impl KeptDelays {
    fn add(&mut self, packets: u64, delays: Delays) {
        self.packets += packets;
        self.sum += u128::from(packets) * u128::from(delays.mean.0);
        self.p99 = self.p99.max(delays.p99);
        self.max = self.max.max(delays.max);
    }

    fn record(&self) -> DelayRecord {
        let mean = (self.sum / u128::from(self.packets.max(1))) as u64;
        DelayRecord { mean, p99: self.p99.0, max: self.max.0 }
    }
}

pub(super) struct Statistics {
    log: Lines,
    start: Nanos,
    /// The start of the current interval.
    since: Nanos,
    kept: [Kept; 2],
}

impl Statistics {
    pub(super) fn new(log: Lines, now: Nanos) -> Self {
        Self { log, start: now, since: now, kept: Default::default() }
    }

    /// Writes the record of the interval since the last call.
    pub(super) fn end_interval(&mut self, now: Nanos, directions: &mut [DirectionQueues; 2]) {
        let length = now.saturating_sub(self.since);
        for (direction, state) in Direction::BOTH.into_iter().zip(directions.iter_mut()) {
            if state.queues().is_empty() {
                continue;
            }
            let kept = &mut self.kept[direction as usize];
            let late = state.take_late();
            let counts = state.counts();
            let since = counts.since(&std::mem::replace(&mut kept.counts, counts));
            let dualpi2 = dualpi2(state).map(|queues| {
                let Interval { low_latency: l, classic: c, .. } = queues.end_interval(now);
                kept.low_latency.add(l.counters.forwarded.total(), l.delays);
                kept.classic.add(c.counters.forwarded.total(), c.delays);
                DualRecord {
                    low_latency: QueueRecord::new(&l.counters, delays(l.delays)),
                    classic: QueueRecord::new(&c.counters, delays(c.delays)),
                    ..DualRecord::new(queues)
                }
            });
            let record = Record::new("interval", direction, now, length, state, since);
            self.log.push(|| Record { late, dualpi2, ..record });
        }
        self.since = now;
        self.log.flush();
    }

    /// Writes the record of the whole time, into the file and the program's log.
    pub(super) fn finish(
        mut self,
        now: Nanos,
        directions: &mut [DirectionQueues; 2],
    ) -> Result<(), Error> {
        self.end_interval(now, directions);
        let length = now.saturating_sub(self.start);
        for (direction, state) in Direction::BOTH.into_iter().zip(directions.iter_mut()) {
            if state.queues().is_empty() {
                continue;
            }
            let kept = &self.kept[direction as usize];
            let dualpi2 = dualpi2(state).map(|queues| DualRecord {
                low_latency: QueueRecord::new(
                    &queues.low_latency_counters(),
                    kept.low_latency.record(),
                ),
                classic: QueueRecord::new(&queues.classic_counters(), kept.classic.record()),
                ..DualRecord::new(queues)
            });
            let record = Record::new("total", direction, now, length, state, kept.counts);
            let record = Record { late: state.lateness().figures(), dualpi2, ..record };
            tracing::info!("{}", record.in_words());
            self.log.push(|| record);
        }
        self.log.finish()
    }
}

fn dualpi2(state: &mut DirectionQueues) -> Option<&mut DualPi2<Packet>> {
    match state.queues_mut().first_mut()?.child_mut().policy_mut() {
        Queue::DualPi2(queues) => Some(queues),
        Queue::Weighted(_) | Queue::Other(_) => None,
    }
}

fn delays(delays: Delays) -> DelayRecord {
    DelayRecord { mean: delays.mean.0, p99: delays.p99.0, max: delays.max.0 }
}

impl Record {
    fn new(
        kind: &'static str,
        direction: Direction,
        now: Nanos,
        length: Nanos,
        state: &DirectionQueues,
        counts: Counts,
    ) -> Self {
        let queue = state.queues().first();
        let backlog = queue.map(Qdisc::backlog).unwrap_or_default();
        Self {
            kind,
            direction: direction.name(),
            time: now.0,
            length: length.0,
            rate: queue.and_then(TokenBucket::rate).map(Rate::as_bps),
            packets: counts.sent,
            bytes: counts.bytes.0,
            marked: counts.marked,
            dropped: counts.dropped,
            backlog_packets: backlog.packets,
            backlog_bytes: backlog.bytes.0,
            late: None,
            dualpi2: None,
        }
    }

    fn in_words(&self) -> String {
        let rate = Rate::from_bytes_over(Bytes(self.bytes), Nanos(self.length));
        let queue = |name: &str, q: &QueueRecord| {
            format!(
                "; {name} queue: {} packets, {} marked, {} dropped, waits of {} on average",
                q.forwarded.total(),
                q.marked.total(),
                q.dropped.total(),
                Nanos(q.delay.mean)
            )
        };
        let dualpi2 = self
            .dualpi2
            .as_ref()
            .map_or_else(String::new, |d| queue("L", &d.low_latency) + &queue("C", &d.classic));
        format!(
            "{}: {} packets, {rate} on average, {} marked, {} dropped, up to {} late{dualpi2}",
            self.direction,
            self.packets,
            self.marked,
            self.dropped,
            Nanos(self.late.map_or(0, |late| late.max_ns)),
        )
    }
}

impl DualRecord {
    /// Records the totals of `queues`, without delays.
    fn new(queues: &DualPi2<Packet>) -> Self {
        let none = DelayRecord::default();
        Self {
            probability: queues.probability(),
            low_latency: QueueRecord::new(&queues.low_latency_counters(), none),
            classic: QueueRecord::new(&queues.classic_counters(), none),
            overload: OverloadRecord::new(queues.overload()),
        }
    }
}

impl QueueRecord {
    fn new(counters: &Counters, delay: DelayRecord) -> Self {
        let Counters { arrived, presented, forwarded, marked, dropped, bytes } = counters;
        Self {
            arrived: arrived.into(),
            presented: presented.into(),
            forwarded: forwarded.into(),
            marked: marked.into(),
            dropped: dropped.into(),
            bytes: bytes.0,
            delay,
        }
    }
}

impl From<&ByEcn> for EcnRecord {
    fn from(counts: &ByEcn) -> Self {
        Self {
            not_ect: counts.get(Ecn::NotEct),
            ect1: counts.get(Ecn::Ect1),
            ect0: counts.get(Ecn::Ect0),
            ce: counts.get(Ecn::Ce),
        }
    }
}

impl EcnRecord {
    fn total(&self) -> u64 {
        self.not_ect + self.ect1 + self.ect0 + self.ce
    }
}

impl OverloadRecord {
    fn new(overload: Overload) -> Self {
        let episode = overload.current.or(overload.last);
        Self {
            episodes: overload.episodes,
            start: episode.map(|e| e.start.0),
            duration: episode.map(|e| e.duration.0),
            lasts: overload.current.is_some(),
        }
    }
}
