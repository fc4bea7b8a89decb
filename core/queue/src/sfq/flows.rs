//! The flows by bucket: their packets, their turns and the longest of them.

use alloc::boxed::Box;
use alloc::vec;

use crate::chain::{Chain, Slab};
use crate::ranks::{Link, Ranked, Ranks};
use crate::round::{Round, next_turn};
use forebay_prefetch::prefetch_at;

/// A flow. It fills half a cache line, since with very many flows most of the time goes into
/// fetching them from memory.
#[derive(Clone, Copy, Debug, Hash)]
#[repr(align(32))]
struct Flow {
    packets: Chain,
    /// The link whose rank is the flow's length in packets.
    link: Link,
    credit: i32,
}

const _: () = assert!(size_of::<Flow>() == 32);

impl Ranked for Flow {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// All flows. Those that have packets are *open* and in the round.
#[derive(Clone, Debug, Hash)]
pub(super) struct Flows {
    flows: Box<[Flow]>,
    round: Round,
    ranks: Ranks,
}

impl Flows {
    /// Creates `buckets` empty flows, of which `open` may have packets at a time, up to `depth`
    /// each.
    pub(super) fn new(buckets: u32, open: u32, depth: u32) -> Self {
        let closed = Flow { packets: Chain::EMPTY, link: Link::ZERO, credit: 0 };
        Self {
            flows: vec![closed; buckets as usize].into(),
            round: Round::new(open),
            ranks: Ranks::new(depth),
        }
    }

    /// Returns the number of flows that have packets.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.round.len()
    }

    /// Returns the number of packets of `flow`.
    #[inline]
    pub(super) fn len(&self, flow: u32) -> u32 {
        self.flows[flow as usize].link.rank()
    }

    /// Appends `packet` to `flow`. If the flow was empty, it joins the end of the round with
    /// `credit`.
    pub(super) fn push<P>(&mut self, flow: u32, packet: P, packets: &mut Slab<P>, credit: i32) {
        let state = &mut self.flows[flow as usize];
        packets.push_back(&mut state.packets, packet);
        let len = state.link.rank();
        if len == 0 {
            state.credit = credit;
            self.round.push_back(flow);
        }
        self.ranks.set(&mut self.flows, flow, len + 1);
    }

    /// Removes and returns the oldest or the newest packet of `flow`. If it was the last one, the
    /// caller must close the flow.
    pub(super) fn pop<P>(&mut self, flow: u32, packets: &mut Slab<P>, oldest: bool) -> Option<P> {
        let state = &mut self.flows[flow as usize];
        let chain = &mut state.packets;
        let packet = if oldest { packets.pop_front(chain) } else { packets.pop_back(chain) }?;
        let len = state.link.rank();
        self.ranks.set(&mut self.flows, flow, len - 1);
        Some(packet)
    }

    /// Removes and returns all packets of the first flow of the round, and closes the flow.
    pub(super) fn pop_first_flow(&mut self) -> Option<Chain> {
        let flow = self.round.pop_front()?;
        self.ranks.set(&mut self.flows, flow, 0);
        Some(core::mem::replace(&mut self.flows[flow as usize].packets, Chain::EMPTY))
    }

    /// Returns the first flow of the round.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.round.front()
    }

    /// Removes the first flow from the round.
    pub(super) fn close_first<P>(&mut self, packets: &Slab<P>) {
        self.round.pop_front();
        self.prefetch_ahead(packets);
    }

    /// Returns the flow with the most packets, or `None` if no flow has more than one.
    #[inline]
    pub(super) fn longest(&self) -> Option<u32> {
        self.ranks.highest()
    }

    /// Advances the round to the next flow with credit and returns it; it is then the first flow.
    pub(super) fn next_turn<P>(&mut self, quantum: i32, packets: &Slab<P>) -> Option<u32> {
        loop {
            let flow = self.round.front()?;
            let state = &mut self.flows[flow as usize];
            if state.credit > 0 {
                return Some(flow);
            }
            state.credit += quantum;
            self.round.pop_front();
            self.round.push_back(flow);
            self.prefetch_ahead(packets);
        }
    }

    /// Returns the packets of the flow that [`Flows::next_turn`] would return. This walks over the
    /// flows without credit.
    pub(super) fn peek_turn(&self, quantum: i32) -> Option<Chain> {
        let flows = self.round.iter().map(|flow| &self.flows[flow as usize]);
        next_turn(flows.map(|state| (state.packets, state.credit, quantum)))
    }

    /// Subtracts `cost` from the flow's credit.
    #[inline]
    pub(super) fn charge(&mut self, flow: u32, cost: i32) {
        let credit = &mut self.flows[flow as usize].credit;
        *credit = credit.saturating_sub(cost);
    }

    /// Prefetches what appending a packet to `flow` will access.
    pub(super) fn prefetch<P>(&self, flow: u32, packets: &Slab<P>) {
        // Reads the flow instead of prefetching it. The flows of a batch are independent, so the
        // processor fetches many of them in parallel and can then prefetch what they point to.
        let state = &self.flows[flow as usize];
        packets.prefetch_tail(state.packets);
        Ranks::prefetch(&self.flows, state.link);
    }

    /// Prefetches what the turns after the next will access.
    fn prefetch_ahead<P>(&self, packets: &Slab<P>) {
        let ahead = self.round.ahead();
        if let Some(flow) = ahead.flow {
            prefetch_at(&self.flows, flow);
        }
        if let Some(flow) = ahead.packet_of {
            let state = &self.flows[flow as usize];
            packets.prefetch_head(state.packets);
            Ranks::prefetch(&self.flows, state.link);
        }
    }
}
