//! The flows by bucket: their packets, whose turn it is and who has the most.

use alloc::boxed::Box;
use alloc::vec;

use crate::chain::{Chain, Slab};
use crate::ranks::{Link, Ranked, Ranks};
use crate::round::{Round, next_turn};
use forebay_prefetch::prefetch_at;

/// A flow, half a cache line: with very many flows the time goes into fetching these.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Flow {
    packets: Chain,
    /// Its rank is the flow's length in packets.
    link: Link,
    credit: i32,
}

const _: () = assert!(size_of::<Flow>() == 32);

impl Ranked for Flow {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The flows that have packets are *open*, and in the round.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    flows: Box<[Flow]>,
    round: Round,
    ranks: Ranks,
}

impl Flows {
    /// For `buckets` buckets, of which `open` may have packets, up to `depth` each.
    pub(super) fn new(buckets: u32, open: u32, depth: u32) -> Self {
        let closed = Flow { packets: Chain::EMPTY, link: Link::ZERO, credit: 0 };
        Self {
            flows: vec![closed; buckets as usize].into(),
            round: Round::new(open),
            ranks: Ranks::new(depth),
        }
    }

    /// How many flows have packets.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.round.len()
    }

    /// The packets of `flow`.
    #[inline]
    pub(super) fn len(&self, flow: u32) -> u32 {
        self.flows[flow as usize].link.rank()
    }

    /// Appends `packet` to `flow`, which if it had none begins a turn of `credit`, last in the round.
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

    /// Takes the oldest packet of `flow`, or the newest. Who takes the last must close the flow.
    pub(super) fn pop<P>(&mut self, flow: u32, packets: &mut Slab<P>, oldest: bool) -> Option<P> {
        let state = &mut self.flows[flow as usize];
        let chain = &mut state.packets;
        let packet = if oldest { packets.pop_front(chain) } else { packets.pop_back(chain) }?;
        let len = state.link.rank();
        self.ranks.set(&mut self.flows, flow, len - 1);
        Some(packet)
    }

    /// Takes all packets of the first flow of the round, and closes it.
    pub(super) fn pop_first_flow(&mut self) -> Option<Chain> {
        let flow = self.round.pop_front()?;
        self.ranks.set(&mut self.flows, flow, 0);
        Some(core::mem::replace(&mut self.flows[flow as usize].packets, Chain::EMPTY))
    }

    /// The first flow of the round.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.round.front()
    }

    /// Takes the first flow of the round out of it.
    pub(super) fn close_first<P>(&mut self, packets: &Slab<P>) {
        self.round.pop_front();
        self.look_ahead(packets);
    }

    /// The flow with the most packets, `None` if none has more than one.
    #[inline]
    pub(super) fn longest(&self) -> Option<u32> {
        self.ranks.highest()
    }

    /// Moves on to the flow whose turn it is, which is then the first of the round.
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
            self.look_ahead(packets);
        }
    }

    /// The packets of the flow that [`Flows::next_turn`] would move on to. Walks past the flows that
    /// have used up their turn.
    pub(super) fn peek_turn(&self, quantum: i32) -> Option<Chain> {
        let flows = self.round.iter().map(|flow| &self.flows[flow as usize]);
        next_turn(flows.map(|state| (state.packets, state.credit, quantum)))
    }

    /// Takes `cost` off the flow's credit.
    #[inline]
    pub(super) fn charge(&mut self, flow: u32, cost: i32) {
        let credit = &mut self.flows[flow as usize].credit;
        *credit = credit.saturating_sub(cost);
    }

    /// Asks for what appending a packet to `flow` will touch.
    pub(super) fn prefetch<P>(&self, flow: u32, packets: &Slab<P>) {
        // Reading the flow instead of asking for it: flows of a batch do not depend on each other,
        // so the processor waits for many of them at a time, and can go on to what they point to.
        let state = &self.flows[flow as usize];
        packets.prefetch_tail(state.packets);
        Ranks::prefetch(&self.flows, state.link);
    }

    /// Asks for what the turns after the next will touch.
    fn look_ahead<P>(&self, packets: &Slab<P>) {
        let (flow, packet) = self.round.ahead();
        if let Some(flow) = flow {
            prefetch_at(&self.flows, flow);
        }
        if let Some(flow) = packet {
            let state = &self.flows[flow as usize];
            packets.prefetch_head(state.packets);
            Ranks::prefetch(&self.flows, state.link);
        }
    }
}
