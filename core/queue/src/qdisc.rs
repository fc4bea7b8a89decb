use alloc::boxed::Box;
use core::fmt;

use forebay_units::{Bytes, Nanos};

use crate::Packet;

/// The packets and bytes that wait in a qdisc and its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backlog {
    /// The number of waiting packets.
    pub packets: u64,
    /// The total length of the waiting packets.
    pub bytes: Bytes,
}

/// The room that a qdisc's limits leave for more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The number of packets that fit.
    pub packets: u64,
    /// The total length of the packets that fit.
    pub bytes: Bytes,
}

impl Room {
    /// The room of a qdisc without a limit, or without a known one.
    pub const UNLIMITED: Self = Self { packets: u64::MAX, bytes: Bytes(u64::MAX) };
}

/// The reason why a qdisc dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The limit in packets was reached.
    PacketLimit,
    /// The limit in bytes was reached.
    ByteLimit,
    /// The packet waited longer than the limit in time.
    TimeLimit,
    /// The flow's limit in packets was reached.
    FlowLimit,
    /// The qdisc's limit of waiting flows was reached, and the packet belongs to another flow.
    FlowTableFull,
    /// CoDel's control law dropped the packet (RFC 8289 section 5).
    Codel,
    /// PIE dropped the packet by its drop probability (RFC 8033 section 4.1).
    Pie,
    /// PI2 or DualPI2, with any base AQM, dropped the packet by the classic probability (RFC 9332
    /// section 2.4).
    Pi2,
    /// Marking is saturated, so ECN-capable packets are dropped too (RFC 9332 section 2.5.1.1).
    Overload,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PacketLimit => "packet limit",
            Self::ByteLimit => "byte limit",
            Self::TimeLimit => "time limit",
            Self::FlowLimit => "flow limit",
            Self::FlowTableFull => "flow table full",
            Self::Codel => "codel",
            Self::Pie => "pie",
            Self::Pi2 => "pi2",
            Self::Overload => "overload",
        })
    }
}

/// Receives the packets that a qdisc drops, so that their owner gets every packet back.
pub trait DropSink<P> {
    /// Receives `packet`, which was dropped for `reason`.
    fn dropped(&mut self, packet: P, reason: DropReason);
}

impl<P, F: FnMut(P, DropReason)> DropSink<P> for F {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self(packet, reason);
    }
}

/// A queueing discipline.
///
/// Every enqueued packet leaves exactly once: through [`Qdisc::dequeue`] or into the drop sink. The
/// caller must not pass a `now` earlier than in the call before.
pub trait Qdisc<P: Packet>: Send {
    /// Enqueues `packet`. It, or others that make room for it, may be dropped into `drops`.
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>);

    /// Returns the next packet to send, or `None` if none may leave now (see
    /// [`Qdisc::next_event`]). An AQM may drop packets before it.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P>;

    /// Returns the packet that `dequeue` would consider first, without removing it. An AQM may
    /// still drop that packet in `dequeue`.
    fn peek(&self) -> Option<&P>;

    /// Returns the packets and bytes that wait.
    fn backlog(&self) -> Backlog;

    /// Returns whether `packet` could be enqueued now without any drop. Backpressure uses this.
    fn probe(&self, now: Nanos, packet: &P) -> bool;

    /// Returns the room for packets of [`class`](Packet::class). Backpressure uses this before the
    /// packet exists.
    ///
    /// [`Qdisc::probe`] refuses every packet that does not fit into this room. It may also refuse
    /// one that does, for its length or its flow. The default is unlimited.
    fn room(&self, _class: u8) -> Room {
        Room::UNLIMITED
    }

    /// Returns the number of classes that have separate room, from 1 to 256. Higher classes share
    /// the last one. The default is one: all packets share one limit.
    fn classes(&self) -> usize {
        1
    }

    /// Returns when `dequeue` can return a packet. `now` or earlier means at once, a later time
    /// means that a shaper holds the packet until then, and `None` means that no packet waits.
    fn next_event(&self, now: Nanos) -> Option<Nanos>;

    /// Prefetches the state that enqueueing `packet` will use.
    ///
    /// With very many flows, call this for each packet of a batch before enqueueing the first. The
    /// state of the flows then comes from memory in parallel instead of one flow after the other. A
    /// qdisc may ignore the hint.
    fn prefetch(&self, _packet: &P) {}
}

impl<P: Packet, Q: Qdisc<P> + ?Sized> Qdisc<P> for Box<Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        (**self).enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        (**self).dequeue(now, drops)
    }

    fn peek(&self) -> Option<&P> {
        (**self).peek()
    }

    fn backlog(&self) -> Backlog {
        (**self).backlog()
    }

    fn probe(&self, now: Nanos, packet: &P) -> bool {
        (**self).probe(now, packet)
    }

    fn room(&self, class: u8) -> Room {
        (**self).room(class)
    }

    fn classes(&self) -> usize {
        (**self).classes()
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (**self).next_event(now)
    }

    fn prefetch(&self, packet: &P) {
        (**self).prefetch(packet);
    }
}
