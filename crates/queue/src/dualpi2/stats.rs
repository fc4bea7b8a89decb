//! What an operator wants to know of each queue (RFC 9332 section 2.5.2.2).

use forebay_units::{Bytes, Nanos};

use super::histogram::Histogram;
use crate::Ecn;

/// Packets by the ECN field they came with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByEcn([u64; 4]);

impl ByEcn {
    /// Those that came with `ecn`.
    pub fn get(&self, ecn: Ecn) -> u64 {
        self.0[ecn as usize]
    }

    /// All of them.
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

/// Packets of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// That came for it.
    pub arrived: ByEcn,
    /// That got in. The others found no room.
    pub presented: ByEcn,
    /// That left, marked or not.
    pub forwarded: ByEcn,
    /// That left with a mark they came without.
    pub marked: ByEcn,
    /// That the AQM dropped.
    pub dropped: ByEcn,
    /// Bytes that left.
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

/// How long the packets that left had waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The mean.
    pub mean: Nanos,
    /// What 99 % waited at most, at most a sixteenth too high.
    pub p99: Nanos,
    /// The longest.
    pub max: Nanos,
}

/// A queue in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueInterval {
    /// Its packets in the interval.
    pub counters: Counters,
    /// The waits of those that left, zero if none did.
    pub delays: Delays,
}

/// Both queues in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// The L queue.
    pub low_latency: QueueInterval,
    /// The C queue.
    pub classic: QueueInterval,
}

#[derive(Clone, Debug)]
pub(super) struct Stats {
    counters: Counters,
    /// The counters when the interval began.
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
