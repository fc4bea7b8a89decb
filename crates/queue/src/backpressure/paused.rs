//! The paused-flows queue: who waits for room, in the order of the scheduled buffer's policy.

use forebay_units::Nanos;

use super::config::{Config, Order};
use crate::ConfigError;
use crate::ffs::{PriorityQueue, TimingWheel};

/// The highest rank by packets in the buffer; flows with more are alike.
const MAX_HELD: u32 = 62;

/// Where a flow goes in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The part of the scheduled buffer that it waits for.
    pub(super) lane: u8,
    /// The class of the packet that it waits with.
    pub(super) class: u8,
    /// Packets that it has in the buffer.
    pub(super) held: u16,
    /// Not before this time.
    pub(super) at: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Paused {
    Ranked {
        queue: PriorityQueue,
        /// Ranks of a lane, the last of them for flows that try again.
        ranks: u32,
        by: By,
    },
    Timed(TimingWheel),
}

/// What a flow's rank comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    Arrival,
    Held,
    Class,
}

impl Paused {
    pub(super) fn new(config: &Config, lanes: u32) -> Result<Self, ConfigError> {
        let (ranks, by) = match config.order {
            Order::Fifo => (1, By::Arrival),
            Order::RoundRobin => (u32::from(config.in_buffer).min(MAX_HELD) + 1, By::Held),
            Order::Priority { classes } => (u32::from(classes), By::Class),
            Order::EarliestTime { granularity, buckets } => {
                return Ok(Self::Timed(TimingWheel::new(granularity, buckets, config.flows)?));
            }
        };
        let ranks = ranks + 1;
        Ok(Self::Ranked { queue: PriorityQueue::new(lanes * ranks, config.flows)?, ranks, by })
    }

    /// Whether a flow's place depends on how many packets it has in the buffer.
    #[inline]
    pub(super) fn by_held(&self) -> bool {
        matches!(self, Self::Ranked { by: By::Held, .. })
    }

    /// Queues `flow`: before those of the same rank if it has been passed over, else behind them.
    #[inline]
    pub(super) fn push(&mut self, now: Nanos, flow: u32, place: Place, front: bool) {
        match self {
            Self::Ranked { queue, ranks, by } => {
                let rank = match by {
                    By::Arrival => 0,
                    By::Held => u32::from(place.held),
                    By::Class => u32::from(place.class),
                };
                let rank = u32::from(place.lane) * *ranks + rank.min(*ranks - 2);
                if front {
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

    /// Queues `flow` among those that try again when a packet has left.
    /// Where times count, there are none of these.
    pub(super) fn push_retry(&mut self, flow: u32, lane: u8) {
        if let Self::Ranked { queue, ranks, .. } = self {
            queue.push(flow, u32::from(lane) * *ranks + *ranks - 1);
        }
    }

    /// Takes the first flow that waits for `lane`, and if times count is due.
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

    /// Takes the first flow of `lane` that tries again.
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

    /// When the first flow's time comes, where times count.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        match self {
            Self::Ranked { .. } => None,
            Self::Timed(wheel) => wheel.next_due(),
        }
    }
}
