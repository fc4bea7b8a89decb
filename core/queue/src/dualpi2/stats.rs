//! Statistics of each queue for operators (RFC 9332 section 2.5.2.2).

use forebay_units::{Bytes, Nanos};

use super::histogram::Histogram;
use crate::Ecn;

/// The number of packets by the ECN field they arrived with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByEcn([u64; 4]);

impl ByEcn {
    /// Returns the number of packets that arrived with `ecn`.
    pub fn get(&self, ecn: Ecn) -> u64 {
        self.0[ecn as usize]
    }

    /// Returns the number of all packets.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    #[inline]
    fn add(&mut self, ecn: Ecn) {
        self.0[ecn as usize] += 1;
    }

    fn since(self, earlier: Self) -> Self {
        let mut counts = self.0;
        for (count, before) in counts.iter_mut().zip(earlier.0) {
            *count -= before;
        }
        Self(counts)
    }
}

/// The packet counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived for the queue.
    pub arrived: ByEcn,
    /// Packets that entered the queue; the others found no room.
    pub presented: ByEcn,
    /// Packets that left, marked or not.
    pub forwarded: ByEcn,
    /// Packets that the AQM marked.
    pub marked: ByEcn,
    /// Packets that the AQM dropped.
    pub dropped: ByEcn,
    /// The bytes of the packets that left.
    pub bytes: Bytes,
}

impl Counters {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            arrived: self.arrived.since(earlier.arrived),
            presented: self.presented.since(earlier.presented),
            forwarded: self.forwarded.since(earlier.forwarded),
            marked: self.marked.since(earlier.marked),
            dropped: self.dropped.since(earlier.dropped),
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// The sojourn times of the packets that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The mean sojourn time.
    pub mean: Nanos,
    /// The 99th percentile, at most a sixteenth too high.
    pub p99: Nanos,
    /// The longest sojourn time.
    pub max: Nanos,
}

/// The statistics of one queue over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueInterval {
    /// The packets of the interval.
    pub counters: Counters,
    /// The sojourn times of the packets that left; zero if none did.
    pub delays: Delays,
}

/// The statistics of both queues over an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The time at which the interval began.
    pub start: Nanos,
    /// The time at which the interval ended.
    pub end: Nanos,
    /// The statistics of the L queue.
    pub low_latency: QueueInterval,
    /// The statistics of the C queue.
    pub classic: QueueInterval,
}

/// The running statistics of one queue.
#[derive(Clone, Debug)]
pub(super) struct Stats {
    counters: Counters,
    /// The counters at the beginning of the interval.
    before: Counters,
    delays: Histogram,
}

impl Stats {
    pub(super) fn new() -> Self {
        let (counters, before) = (Counters::default(), Counters::default());
        Self { counters, before, delays: Histogram::new() }
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    #[inline]
    pub(super) fn arrived(&mut self, ecn: Ecn) {
        self.counters.arrived.add(ecn);
    }

    #[inline]
    pub(super) fn presented(&mut self, ecn: Ecn) {
        self.counters.presented.add(ecn);
    }

    #[inline]
    pub(super) fn marked(&mut self, ecn: Ecn) {
        self.counters.marked.add(ecn);
    }

    #[inline]
    pub(super) fn dropped(&mut self, ecn: Ecn) {
        self.counters.dropped.add(ecn);
    }

    #[inline]
    pub(super) fn forwarded(&mut self, ecn: Ecn, len: Bytes, sojourn: Nanos) {
        self.counters.forwarded.add(ecn);
        self.counters.bytes += len;
        self.delays.record(sojourn);
    }

    pub(super) fn end_interval(&mut self) -> QueueInterval {
        let counters = self.counters.since(&self.before);
        let (mean, p99, max) = (self.delays.mean(), self.delays.percentile(99), self.delays.max());
        self.before = self.counters;
        self.delays.clear();
        QueueInterval { counters, delays: Delays { mean, p99, max } }
    }
}
