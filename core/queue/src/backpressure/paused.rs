//! The paused-flows queue: the flows that wait for room, in the order of the buffer's policy.

use forebay_units::Nanos;

use super::config::{Config, Order};
use crate::ConfigError;
use crate::ffs::{PriorityQueue, TimingWheel};

/// The highest rank by packets in the buffer; flows with more packets share it.
const MAX_IN_BUFFER: u32 = 62;

/// The values that determine a flow's place in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The lane of the scheduled buffer that the flow waits for.
    pub(super) lane: u8,
    /// The class of the packet that the flow waits with.
    pub(super) class: u8,
    /// Packets that the flow has in the buffer.
    pub(super) in_buffer: u16,
    /// The earliest time at which the flow may be resumed.
    pub(super) at: Nanos,
}

/// The paused-flows queue, by rank or by time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Paused {
    Ranked {
        queue: PriorityQueue,
        /// The number of ranks of a lane. The last one is for flows that retry.
        ranks: u32,
        by: By,
    },
    Timed(TimingWheel),
}

/// The value that determines a flow's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    Arrival,
    InBuffer,
    Class,
}

impl Paused {
    pub(super) fn new(config: &Config, lanes: u32) -> Result<Self, ConfigError> {
        let (ranks, by) = match config.order {
            Order::Fifo => (1, By::Arrival),
            Order::RoundRobin => (u32::from(config.in_buffer).min(MAX_IN_BUFFER) + 1, By::InBuffer),
            Order::Priority { classes } => (u32::from(classes), By::Class),
            Order::EarliestTime { granularity, buckets } => {
                return Ok(Self::Timed(TimingWheel::new(granularity, buckets, config.flows)?));
            }
        };
        let ranks = ranks + 1;
        Ok(Self::Ranked { queue: PriorityQueue::new(lanes * ranks, config.flows)?, ranks, by })
    }

    /// Returns whether a flow's place depends on its number of packets in the buffer.
    #[inline]
    pub(super) fn by_in_buffer(&self) -> bool {
        matches!(self, Self::Ranked { by: By::InBuffer, .. })
    }

    /// Queues `flow` before (`at_front`) or behind the other flows of its rank.
    #[inline]
    pub(super) fn push(&mut self, now: Nanos, flow: u32, place: Place, at_front: bool) {
        match self {
            Self::Ranked { queue, ranks, by } => {
                let rank = match by {
                    By::Arrival => 0,
                    By::InBuffer => u32::from(place.in_buffer),
                    By::Class => u32::from(place.class),
                };
                let rank = u32::from(place.lane) * *ranks + rank.min(*ranks - 2);
                if at_front {
                    queue.push_front(flow, rank);
                } else {
                    queue.push(flow, rank);
                }
            }
            Self::Timed(wheel) => {
                wheel.insert(now, flow, place.at);
            }
        }
    }

    /// Queues `flow` to retry when a packet has left. A queue by time has no such flows.
    pub(super) fn push_retry(&mut self, flow: u32, lane: u8) {
        if let Self::Ranked { queue, ranks, .. } = self {
            queue.push(flow, u32::from(lane) * *ranks + *ranks - 1);
        }
    }

    /// Removes and returns the first flow that waits for `lane`; in a queue by time, only if its
    /// time has come.
    #[inline]
    pub(super) fn pop(&mut self, now: Nanos, lane: u8) -> Option<u32> {
        match self {
            Self::Ranked { queue, ranks, .. } => {
                let start = u32::from(lane) * *ranks;
                let (flow, _) = queue.peek_within(start..start + *ranks - 1)?;
                queue.remove(flow);
                Some(flow)
            }
            Self::Timed(wheel) => wheel.pop_due(now),
        }
    }

    /// Removes and returns the first flow of `lane` that retries.
    pub(super) fn pop_retry(&mut self, lane: u8) -> Option<u32> {
        match self {
            Self::Ranked { queue, ranks, .. } => {
                let end = (u32::from(lane) + 1) * *ranks;
                let (flow, _) = queue.peek_within(end - 1..end)?;
                queue.remove(flow);
                Some(flow)
            }
            Self::Timed(_) => None,
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, flow: u32) {
        match self {
            Self::Ranked { queue, .. } => queue.remove(flow),
            Self::Timed(wheel) => wheel.remove(flow),
        };
    }

    /// Returns when the first flow is due, in a queue by time.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        match self {
            Self::Ranked { .. } => None,
            Self::Timed(wheel) => wheel.next_due(),
        }
    }
}
