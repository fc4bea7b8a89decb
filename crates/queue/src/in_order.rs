//! A policy, and a way past it on which packets leave in the order in which they came.
//!
//! For what is held back for a short time and shall then go on as if it had not been. A fair queue
//! serves flows in turns, so it would take apart the trains in which they send, and a queue with a
//! limit at the next bottleneck then drops a packet here and there where it would have dropped one
//! train's.

use alloc::collections::VecDeque;

use forebay_units::{Bytes, Nanos};

use crate::{Backlog, DropReason, DropSink, Packet, Qdisc, Room};

/// A policy, and a way past it on which packets leave in the order in which they came.
///
/// What came before a change of ways leaves before what comes after it, so no flow is out of order.
/// Both ways together have the policy's room: a packet that it would have none for is refused.
#[derive(Clone, Debug)]
pub struct InOrder<P, Q> {
    policy: Q,
    past: VecDeque<P>,
    past_bytes: Bytes,
    /// The way on which packets shall go,
    wanted: Way,
    /// and on which they do, until nothing is left on the other, which came before.
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Policy,
    Past,
}

impl<P: Packet, Q: Qdisc<P>> InOrder<P, Q> {
    /// Over `policy`, which decides until told otherwise.
    pub fn new(policy: Q) -> Self {
        let past = VecDeque::new();
        Self { policy, past, past_bytes: Bytes::ZERO, wanted: Way::Policy, way: Way::Policy }
    }

    /// From now on packets leave in the order in which they come, or (`false`) as the policy says. One
    /// of several classes always decides: their order is not of flows.
    pub fn keep_order(&mut self, keep: bool) {
        self.wanted = if keep && self.policy.classes() == 1 { Way::Past } else { Way::Policy };
        self.turn();
    }

    /// The policy, to ask it and to reconfigure it.
    pub fn policy_mut(&mut self) -> &mut Q {
        &mut self.policy
    }

    /// Changes ways as soon as no packet that came before would be overtaken.
    fn turn(&mut self) {
        let emptied = match self.wanted {
            Way::Policy => self.policy.backlog().packets == 0,
            Way::Past => self.past.is_empty(),
        };
        if emptied {
            self.way = self.wanted;
        }
    }

    /// The way on which older packets wait than on the other, if any do.
    fn first(&self) -> Way {
        match self.way {
            Way::Policy if self.past.is_empty() => Way::Policy,
            Way::Policy => Way::Past,
            Way::Past if self.policy.backlog().packets == 0 => Way::Past,
            Way::Past => Way::Policy,
        }
    }

    /// Whether the policy would have room for `packet` if it had all that waits.
    fn fits(&self, packet: &P) -> bool {
        let room = self.room(packet.class());
        room.packets >= 1 && room.bytes >= packet.len()
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for InOrder<P, Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        if self.way == Way::Policy && self.past.is_empty() {
            return self.policy.enqueue(now, packet, drops);
        }
        if !self.fits(&packet) {
            let full = self.room(packet.class()).packets == 0;
            let reason = if full { DropReason::PacketLimit } else { DropReason::ByteLimit };
            return drops.dropped(packet, reason);
        }
        match self.way {
            Way::Policy => self.policy.enqueue(now, packet, drops),
            Way::Past => {
                self.past_bytes += packet.len();
                self.past.push_back(packet);
            }
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        let mut packet = None;
        if self.first() == Way::Policy {
            packet = self.policy.dequeue(now, drops);
        }
        // An AQM may have dropped the last that waited there.
        if packet.is_none() && self.first() == Way::Past {
            packet = self.past.pop_front();
            self.past_bytes -= packet.as_ref().map_or(Bytes::ZERO, P::len);
        }
        self.turn();
        packet
    }

    fn peek(&self) -> Option<&P> {
        match self.first() {
            Way::Policy => self.policy.peek(),
            Way::Past => self.past.front(),
        }
    }

    fn backlog(&self) -> Backlog {
        let Backlog { packets, bytes } = self.policy.backlog();
        Backlog { packets: packets + self.past.len() as u64, bytes: bytes + self.past_bytes }
    }

    fn probe(&self, now: Nanos, packet: &P) -> bool {
        match (self.way, self.past.is_empty()) {
            (Way::Policy, true) => self.policy.probe(now, packet),
            (Way::Policy, false) => self.fits(packet) && self.policy.probe(now, packet),
            (Way::Past, _) => self.fits(packet),
        }
    }

    fn room(&self, class: u8) -> Room {
        let room = self.policy.room(class);
        Room {
            packets: room.packets.saturating_sub(self.past.len() as u64),
            bytes: room.bytes.saturating_sub(self.past_bytes),
        }
    }

    fn classes(&self) -> usize {
        self.policy.classes()
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        match self.first() {
            Way::Policy => self.policy.next_event(now),
            Way::Past => self.past.front().map(|_| now),
        }
    }

    fn prefetch(&self, packet: &P) {
        if self.way == Way::Policy {
            self.policy.prefetch(packet);
        }
    }
}
