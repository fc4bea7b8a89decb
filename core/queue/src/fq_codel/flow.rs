//! One of FQ-CoDel's queues.

use forebay_units::{Bytes, Nanos};

use crate::chain::{Chain, Slab};
use crate::codel::{Params, Queue, State};
use crate::ranks::{Link, Ranked};
use crate::ring::Timed;
use crate::{Backlog, DropSink, Packet};

/// A queue of flows. It fills exactly one cache line, since with very many flows most of the time
/// goes into fetching them from memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    pub(super) packets: Chain,
    /// The length in bytes. It is at most twice the memory limit, which fits into 32 bits.
    pub(super) bytes: u32,
    pub(super) credit: i32,
    /// Whether the queue is in the round of new or of old queues.
    pub(super) in_round: bool,
    pub(super) link: Link,
    codel: State,
}

const _: () = assert!(size_of::<Flow>() == 64);

impl Ranked for Flow {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The length in bytes from which a queue is ranked; shorter ones hold one packet or a few small
/// ones.
const RANKED_FROM: u32 = 2048;
/// The number of ranks per octave of lengths.
const PER_OCTAVE: u32 = 8;
/// The rank of a queue of 4 GiB.
pub(super) const HIGHEST_RANK: u32 = 1 + (32 - RANKED_FROM.ilog2()) * PER_OCTAVE;

/// Returns the rank of a queue by its length.
///
/// With eight ranks per octave the longest queue by rank is within an eighth of the longest in
/// bytes.
#[inline]
fn rank(bytes: u32) -> u32 {
    if bytes < RANKED_FROM {
        return 0;
    }
    let octave = bytes.ilog2();
    let within = (bytes >> (octave - PER_OCTAVE.ilog2())) & (PER_OCTAVE - 1);
    2 + (octave - RANKED_FROM.ilog2()) * PER_OCTAVE + within
}

impl Flow {
    pub(super) const IDLE: Self = Self {
        packets: Chain::EMPTY,
        bytes: 0,
        credit: 0,
        in_round: false,
        link: Link::ZERO,
        codel: State::NEW,
    };

    #[inline]
    pub(super) fn rank(&self) -> u32 {
        rank(self.bytes)
    }

    /// Removes and returns the packet at the head.
    pub(super) fn pop<P: Packet>(
        &mut self,
        packets: &mut Slab<Timed<P>>,
        backlog: &mut Backlog,
    ) -> Option<Timed<P>> {
        let mut parts = Parts {
            chain: &mut self.packets,
            bytes: &mut self.bytes,
            view: View { packets, backlog },
        };
        parts.pop()
    }

    /// Records that packets of the queue were dropped at the limit.
    pub(super) fn overflowed(&mut self, packets: u32) {
        self.codel.overflowed(packets);
    }

    /// Returns the next packet to send, and the queue's rank afterwards.
    pub(super) fn dequeue<P: Packet>(
        &mut self,
        now: Nanos,
        params: &Params,
        view: View<'_, P>,
        drops: &mut dyn DropSink<P>,
    ) -> (Option<P>, u32) {
        let mut parts = Parts { chain: &mut self.packets, bytes: &mut self.bytes, view };
        let sent = self.codel.dequeue(now, params, &mut parts, drops);
        (sent, rank(self.bytes))
    }
}

/// The storage and the backlog that all queues share.
pub(super) struct View<'a, P> {
    pub(super) packets: &'a mut Slab<Timed<P>>,
    pub(super) backlog: &'a mut Backlog,
}

/// A queue as CoDel sees it.
struct Parts<'a, P> {
    chain: &'a mut Chain,
    bytes: &'a mut u32,
    view: View<'a, P>,
}

impl<P: Packet> Queue<P> for Parts<'_, P> {
    fn pop(&mut self) -> Option<Timed<P>> {
        let head = self.view.packets.pop_front(self.chain)?;
        let len = head.packet.len();
        *self.bytes -= len.0 as u32;
        self.view.backlog.packets -= 1;
        self.view.backlog.bytes -= len;
        Some(head)
    }

    /// Returns the bytes of all queues, so that CoDel also acts if each queue holds only one or two
    /// packets.
    fn bytes(&self) -> Bytes {
        self.view.backlog.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_rise_with_length_and_differ_from_an_eighth_on() {
        for bytes in (RANKED_FROM..200_000).chain((200_000..i32::MAX as u32).step_by(9999)) {
            assert!(rank(bytes - 1) <= rank(bytes), "{bytes} bytes");
            assert!(rank(bytes) < rank(bytes + bytes / 8), "{bytes} bytes");
        }
        assert_eq!(rank(RANKED_FROM - 1), 0);
        assert_eq!(rank(RANKED_FROM), 2, "rank 1 has no list");
        assert_eq!(rank(u32::MAX), HIGHEST_RANK);
    }
}
