//! Which of the two queues goes next: L4S first, within bounds (RFC 9332 section 4.2.2).

use forebay_units::{Bytes, Nanos};

use crate::ConfigError;
use crate::error::within;
use crate::pi2::Params;

/// How the priority of the L queue is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Weighted round robin by bytes: while both queues have packets they share the link by these
    /// weights, each from 1 to 1000.
    RoundRobin {
        /// The L queue's weight.
        low_latency: u32,
        /// The C queue's weight. The packet at its head waits for this many times fewer full
        /// frames than `low_latency`.
        classic: u32,
    },
    /// The packet that came first goes first, L4S packets counting as if they had come earlier.
    TimeShifted {
        /// By this much, which is how much longer a classic packet may have to wait.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    LowLatency,
    Classic,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduler {
    schedule: Schedule,
    mtu: i64,
    /// What the L queue had too much, in bytes times weight: above zero, the C queue goes.
    excess: i64,
}

/// Bytes of a packet, bounded so that the account cannot overflow: a weight is at most 1000.
fn bytes(len: Bytes) -> i64 {
    len.0.min(u64::from(u32::MAX)) as i64
}

impl Scheduler {
    pub(super) fn new(schedule: Schedule, mtu: Bytes) -> Self {
        let mut scheduler = Self { schedule, mtu: bytes(mtu), excess: 0 };
        scheduler.reset();
        scheduler
    }

    /// Starts the round anew, with the whole turn of the L queue first.
    pub(super) fn reset(&mut self) {
        if let Schedule::RoundRobin { low_latency, classic } = self.schedule {
            self.excess = self.mtu * (i64::from(classic) - i64::from(low_latency)).min(0);
        }
    }

    /// The queue that goes next, given when the packets at their heads came.
    #[inline]
    pub(super) fn next(&self, low_latency: Option<Nanos>, classic: Option<Nanos>) -> Option<Which> {
        let (l, c) = match (low_latency, classic) {
            (None, None) => return None,
            (Some(_), None) => return Some(Which::LowLatency),
            (None, Some(_)) => return Some(Which::Classic),
            (Some(l), Some(c)) => (l, c),
        };
        let first = match self.schedule {
            Schedule::RoundRobin { .. } => self.excess <= 0,
            // It has waited, with the shift, no less than the classic packet.
            Schedule::TimeShifted { shift } => l <= c.saturating_add(shift),
        };
        Some(if first { Which::LowLatency } else { Which::Classic })
    }

    /// A packet went while both queues had some.
    #[inline]
    pub(super) fn sent(&mut self, which: Which, len: Bytes) {
        if let Schedule::RoundRobin { low_latency, classic } = self.schedule {
            let change = match which {
                Which::LowLatency => i64::from(classic) * bytes(len),
                Which::Classic => -(i64::from(low_latency) * bytes(len)),
            };
            self.excess = self.excess.saturating_add(change);
        }
    }
}
