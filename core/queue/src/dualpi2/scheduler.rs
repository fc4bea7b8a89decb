//! The scheduler between the two queues: bounded priority for L4S (RFC 9332 section 4.2.2).

use forebay_units::{Bytes, Nanos};

use crate::ConfigError;
use crate::error::within;
use crate::pi2::Params;

/// The method that bounds the priority of the L queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Weighted round robin by bytes: while both queues have packets, they share the link by these
    /// weights, each from 1 to 1000.
    RoundRobin {
        /// The weight of the L queue.
        low_latency: u32,
        /// The weight of the C queue. The packet at its head waits for about
        /// `low_latency / classic` full frames of the L queue.
        classic: u32,
    },
    /// Time-shifted FIFO: the packet that arrived first leaves first, and L4S packets count as if
    /// they had arrived earlier.
    TimeShifted {
        /// How much earlier L4S packets count, which is the extra delay of a classic packet at
        /// most.
        shift: Nanos,
    },
}

impl Schedule {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match *self {
            Self::RoundRobin { low_latency, classic } => {
                within("schedule.low_latency", u64::from(low_latency), 1, 1000)?;
                within("schedule.classic", u64::from(classic), 1, 1000)
            }
            Self::TimeShifted { shift } => within("schedule.shift", shift.0, 0, Params::MAX_TIME.0),
        }
    }
}

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueKind {
    LowLatency,
    Classic,
}

/// The state of the schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduler {
    schedule: Schedule,
    mtu: i64,
    /// What the L queue sent beyond its share, in bytes times weight. Above zero the C queue is
    /// served.
    excess: i64,
}

/// Returns the length of a packet, bounded so that `excess` cannot overflow with weights up to
/// 1000.
fn bytes(len: Bytes) -> i64 {
    len.0.min(u64::from(u32::MAX)) as i64
}

impl Scheduler {
    pub(super) fn new(schedule: Schedule, mtu: Bytes) -> Self {
        let mut scheduler = Self { schedule, mtu: bytes(mtu), excess: 0 };
        scheduler.reset();
        scheduler
    }

    /// Restarts the round with a full turn of the L queue.
    pub(super) fn reset(&mut self) {
        if let Schedule::RoundRobin { low_latency, classic } = self.schedule {
            self.excess = self.mtu * (i64::from(classic) - i64::from(low_latency)).min(0);
        }
    }

    /// Returns the queue that is served next, given the arrival times of the packets at their
    /// heads.
    #[inline]
    pub(super) fn next(
        &self,
        low_latency: Option<Nanos>,
        classic: Option<Nanos>,
    ) -> Option<QueueKind> {
        let (l, c) = match (low_latency, classic) {
            (None, None) => return None,
            (Some(_), None) => return Some(QueueKind::LowLatency),
            (None, Some(_)) => return Some(QueueKind::Classic),
            (Some(l), Some(c)) => (l, c),
        };
        let first = match self.schedule {
            Schedule::RoundRobin { .. } => self.excess <= 0,
            // With the shift, the L4S packet has waited at least as long as the classic one.
            Schedule::TimeShifted { shift } => l <= c.saturating_add(shift),
        };
        Some(if first { QueueKind::LowLatency } else { QueueKind::Classic })
    }

    /// Records that a packet left `queue` while both queues had packets.
    #[inline]
    pub(super) fn sent(&mut self, queue: QueueKind, len: Bytes) {
        if let Schedule::RoundRobin { low_latency, classic } = self.schedule {
            let change = match queue {
                QueueKind::LowLatency => i64::from(classic) * bytes(len),
                QueueKind::Classic => -(i64::from(low_latency) * bytes(len)),
            };
            self.excess = self.excess.saturating_add(change);
        }
    }
}
