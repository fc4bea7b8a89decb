//! The round of deficit round robin, shared by the qdiscs that take flows in turn.
//!
//! Shreedhar and Varghese ("Efficient fair queuing using deficit round robin", SIGCOMM 1995) let a
//! flow send while the packet at its head fits its deficit. That needs the head's length before the
//! packet is taken, which a child with an AQM cannot promise. Here a flow sends while it has
//! *credit*, the last packet may overdraw it, and the debt is paid from later turns. Credit right
//! after a turn is then in (-Max, 0] instead of [0, Max), so the bound that the paper proves for its
//! fairness measure (normalised service differs by at most 2 Max + Q) holds all the same.

use alloc::collections::VecDeque;

use forebay_units::Bytes;

/// The smallest quantum, as in Linux's fq_codel: a flow in debt for a full frame gets its turn back
/// after a handful of rounds, which bounds the work for one dequeue.
pub(crate) const MIN_QUANTUM: u64 = 256;
/// The largest quantum: a megabyte in one go is not sharing any more.
pub(crate) const MAX_QUANTUM: u64 = 1 << 20;

/// What a packet costs, in credit.
#[inline]
pub(crate) fn cost(len: Bytes) -> i32 {
    i32::try_from(len.0).unwrap_or(i32::MAX)
}

/// The flow that gets the next turn, of `(flow, credit, quantum)` in the order of the round: the
/// first in credit, or else the first for which the fewest rounds pay off the debt.
pub(crate) fn next_turn<F>(flows: impl Iterator<Item = (F, i32, i32)>) -> Option<F> {
    let mut soonest: Option<(i32, F)> = None;
    for (flow, credit, quantum) in flows {
        if credit > 0 {
            return Some(flow);
        }
        // Not negated: i32::MIN has no opposite. Division of negatives rounds towards zero.
        let rounds = -(credit / quantum) + 1;
        if soonest.as_ref().is_none_or(|(best, _)| rounds < *best) {
            soonest = Some((rounds, flow));
        }
    }
    soonest.map(|(_, flow)| flow)
}

/// Flows in the order of their turns, each at most once. A ring and not a linked list, so that it
/// can be seen which flows come a few turns ahead without touching those before them.
#[derive(Clone, Debug)]
pub(crate) struct Round(VecDeque<u32>);

/// How many turns ahead a flow is asked for: some 100 ns of work.
const FLOW_AHEAD: usize = 4;
/// How many turns ahead the flow is expected to have come, so that its packet can be asked for.
const PACKET_AHEAD: usize = 2;

impl Round {
    /// For up to `flows` flows.
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

    /// The flow to prefetch, and the one whose packet to prefetch, now that a turn is over.
    #[inline]
    pub(crate) fn ahead(&self) -> (Option<u32>, Option<u32>) {
        (self.0.get(FLOW_AHEAD).copied(), self.0.get(PACKET_AHEAD).copied())
    }

    /// The flows from first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}
