//! A wrapper round a qdisc that can, for a time, serve packets in the order of arrival instead.
//!
//! It is for packets that are held back for a short time and then continue as if they had not been.
//! A fair queue serves flows in turns and so breaks up the bursts in which they send. A full queue
//! at the next bottleneck then drops packets of many flows instead of packets of one burst.

use alloc::collections::VecDeque;

use forebay_units::{Bytes, Nanos};

use crate::{Backlog, DropReason, DropSink, Packet, Qdisc, Room};

/// A qdisc with a FIFO bypass on which packets leave in the order of arrival.
///
/// Packets that arrived before a switch between the two leave before later ones, so no flow is
/// reordered. Both together have the policy's room: a packet that would not fit into the policy
/// with everything that waits is dropped.
#[derive(Clone, Debug)]
pub struct InOrder<P, Q> {
    policy: Q,
    bypass: VecDeque<P>,
    bypass_bytes: Bytes,
    /// The requested route for new packets.
    wanted: Route,
    /// The current route for new packets. It changes to the wanted one when no older packet waits
    /// on the other.
    current: Route,
}

/// The two queues that a packet may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Policy,
    Bypass,
}

impl<P: Packet, Q: Qdisc<P>> InOrder<P, Q> {
    /// Creates a wrapper round `policy`, which decides the order until [`InOrder::keep_order`].
    pub fn new(policy: Q) -> Self {
        let (wanted, current) = (Route::Policy, Route::Policy);
        Self { policy, bypass: VecDeque::new(), bypass_bytes: Bytes::ZERO, wanted, current }
    }

    /// Switches to the order of arrival (`true`) or to the policy's order (`false`).
    ///
    /// A policy with several classes always decides the order, since its classes have priorities or
    /// weights that the order of arrival would ignore.
    pub fn keep_order(&mut self, keep: bool) {
        let bypass = keep && self.policy.classes() == 1;
        self.wanted = if bypass { Route::Bypass } else { Route::Policy };
        self.switch();
    }

    /// Returns the policy, for queries and reconfiguration.
    pub fn policy_mut(&mut self) -> &mut Q {
        &mut self.policy
    }

    /// Switches to the wanted route once no older packet would be overtaken.
    fn switch(&mut self) {
        let emptied = match self.wanted {
            Route::Policy => self.policy.backlog().packets == 0,
            Route::Bypass => self.bypass.is_empty(),
        };
        if emptied {
            self.current = self.wanted;
        }
    }

    /// Returns the route whose packets leave first: the one with the older packets, if packets
    /// wait.
    fn first(&self) -> Route {
        match self.current {
            Route::Policy if self.bypass.is_empty() => Route::Policy,
            Route::Policy => Route::Bypass,
            Route::Bypass if self.policy.backlog().packets == 0 => Route::Bypass,
            Route::Bypass => Route::Policy,
        }
    }

    /// Returns whether `packet` would fit into the policy if all waiting packets were in it.
    fn fits(&self, packet: &P) -> bool {
        let room = self.room(packet.class());
        room.packets >= 1 && room.bytes >= packet.len()
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for InOrder<P, Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        if self.current == Route::Policy && self.bypass.is_empty() {
            return self.policy.enqueue(now, packet, drops);
        }
        if !self.fits(&packet) {
            let full = self.room(packet.class()).packets == 0;
            let reason = if full { DropReason::PacketLimit } else { DropReason::ByteLimit };
            return drops.dropped(packet, reason);
        }
        match self.current {
            Route::Policy => self.policy.enqueue(now, packet, drops),
            Route::Bypass => {
                self.bypass_bytes += packet.len();
                self.bypass.push_back(packet);
            }
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        let mut packet = None;
        if self.first() == Route::Policy {
            packet = self.policy.dequeue(now, drops);
        }
        // An AQM may have dropped the policy's last packet.
        if packet.is_none() && self.first() == Route::Bypass {
            packet = self.bypass.pop_front();
            self.bypass_bytes -= packet.as_ref().map_or(Bytes::ZERO, P::len);
        }
        self.switch();
        packet
    }

    fn peek(&self) -> Option<&P> {
        match self.first() {
            Route::Policy => self.policy.peek(),
            Route::Bypass => self.bypass.front(),
        }
    }

    fn backlog(&self) -> Backlog {
        let Backlog { packets, bytes } = self.policy.backlog();
        Backlog { packets: packets + self.bypass.len() as u64, bytes: bytes + self.bypass_bytes }
    }

    fn probe(&self, now: Nanos, packet: &P) -> bool {
        match (self.current, self.bypass.is_empty()) {
            (Route::Policy, true) => self.policy.probe(now, packet),
            (Route::Policy, false) => self.fits(packet) && self.policy.probe(now, packet),
            (Route::Bypass, _) => self.fits(packet),
        }
    }

    fn room(&self, class: u8) -> Room {
        let room = self.policy.room(class);
        Room {
            packets: room.packets.saturating_sub(self.bypass.len() as u64),
            bytes: room.bytes.saturating_sub(self.bypass_bytes),
        }
    }

    fn classes(&self) -> usize {
        self.policy.classes()
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        match self.first() {
            Route::Policy => self.policy.next_event(now),
            Route::Bypass => self.bypass.front().map(|_| now),
        }
    }

    fn prefetch(&self, packet: &P) {
        if self.current == Route::Policy {
            self.policy.prefetch(packet);
        }
    }
}
