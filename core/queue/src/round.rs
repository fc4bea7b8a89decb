//! The round of deficit round robin, shared by the qdiscs that serve flows in turn.
//!
//! Shreedhar and Varghese ("Efficient fair queuing using deficit round robin", SIGCOMM 1995) let a
//! flow send while the packet at its head fits its deficit. That needs the length of the next
//! packet before it is taken, and a child with an AQM may drop that packet. Here a flow sends while
//! its *credit* is positive. The last packet may overdraw the credit, and later turns make up for
//! it. Credit right after a turn is then in (-Max, 0] instead of [0, Max). The paper's bound on its
//! fairness measure (normalised service differs by at most 2 Max + Q) therefore holds here as well.

use alloc::collections::VecDeque;

use forebay_units::Bytes;

/// The smallest quantum in bytes, as in Linux's fq_codel. It bounds the work of a dequeue: a flow
/// in debt for a full frame has credit again after six rounds.
pub(crate) const MIN_QUANTUM: u64 = 256;
/// The largest quantum in bytes: longer turns would not be fair sharing.
pub(crate) const MAX_QUANTUM: u64 = 1 << 20;

/// Returns the credit that a packet of length `len` costs.
#[inline]
pub(crate) fn cost(len: Bytes) -> i32 {
    i32::try_from(len.0).unwrap_or(i32::MAX)
}

/// Returns the flow that gets the next turn, given `(flow, credit, quantum)` in the order of the
/// round.
///
/// It is the first flow with credit, or else the first of those that need the fewest rounds to pay
/// off their debt.
pub(crate) fn next_turn<F>(flows: impl Iterator<Item = (F, i32, i32)>) -> Option<F> {
    let mut soonest: Option<(i32, F)> = None;
    for (flow, credit, quantum) in flows {
        if credit > 0 {
            return Some(flow);
        }
        // Negates the quotient, since `-i32::MIN` overflows. Division rounds towards zero.
        let rounds = -(credit / quantum) + 1;
        if soonest.as_ref().is_none_or(|(best, _)| rounds < *best) {
            soonest = Some((rounds, flow));
        }
    }
    soonest.map(|(_, flow)| flow)
}

/// Flows in the order of their turns, each at most once.
///
/// A ring buffer, since a linked list would have to walk through the flows before to find the one a
/// few turns ahead.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Round(VecDeque<u32>);

/// How many turns ahead a flow is prefetched: about 100 ns of work.
const FLOW_AHEAD: usize = 4;
/// How many turns ahead a flow's packet is prefetched; the flow itself is in the cache by then.
const PACKET_AHEAD: usize = 2;
/// The number of flows in the round from which prefetching helps; fewer stay in the cache.
const MANY: usize = 256;

/// The flows that come a few turns ahead.
pub(crate) struct Ahead {
    /// The flow to prefetch.
    pub(crate) flow: Option<u32>,
    /// The flow whose packet to prefetch.
    pub(crate) packet_of: Option<u32>,
}

impl Round {
    /// Creates an empty round for up to `flows` flows.
    pub(crate) fn new(flows: u32) -> Self {
        Self(VecDeque::with_capacity(flows as usize))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        self.0.front().copied()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, flow: u32) {
        self.0.push_back(flow);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<u32> {
        self.0.pop_front()
    }

    /// Returns the flows to prefetch at the end of a turn, if they are many.
    #[inline]
    pub(crate) fn ahead(&self) -> Ahead {
        if self.0.len() < MANY {
            return Ahead { flow: None, packet_of: None };
        }
        let flow = self.0.get(FLOW_AHEAD).copied();
        let packet_of = self.0.get(PACKET_AHEAD).copied();
        Ahead { flow, packet_of }
    }

    /// Returns the flows from first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}
