use alloc::boxed::Box;
use core::fmt;

use forebay_units::{Bytes, Nanos};

use crate::Packet;

/// What waits in a qdisc, its children included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets waiting.
    pub packets: u64,
    /// Bytes waiting.
    pub bytes: Bytes,
}

/// What more could wait in a qdisc, as far as its limits say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Packets.
    pub packets: u64,
    /// Bytes, all packets together.
    pub bytes: Bytes,
}

impl Room {
    /// No limit, or none that is known.
    pub const UNLIMITED: Self = Self { packets: u64::MAX, bytes: Bytes(u64::MAX) };
}

/// Why a qdisc dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The limit in packets was reached.
    PacketLimit,
    /// The limit in bytes was reached.
    ByteLimit,
    /// The packet could not leave within the limit in time.
    TimeLimit,
    /// The flow's own share of the queue was full.
    FlowLimit,
    /// As many flows wait as the qdisc has room for, and this was one more.
    FlowTableFull,
    /// CoDel's control law asked for it (RFC 8289 section 5).
    Codel,
    /// PIE's drop probability asked for it (RFC 8033 section 4.1).
    Pie,
    /// The classic drop probability of PI2 asked for it (RFC 9332 section 2.4).
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

/// Takes the packets that a qdisc drops, so that their owner gets every one back.
pub trait DropSink<P> {
    /// Takes `packet`, dropped for `reason`.
    fn dropped(&mut self, packet: P, reason: DropReason);
}

impl<P, F: FnMut(P, DropReason)> DropSink<P> for F {
    fn dropped(&mut self, packet: P, reason: DropReason) {
        self(packet, reason);
    }
}

/// A queueing discipline.
///
/// Every packet that goes in comes out exactly once: from [`Qdisc::dequeue`] or into the drop sink.
/// `now` never goes back between calls.
pub trait Qdisc<P: Packet> {
    /// Takes `packet`. It, or others that must make room for it, may go to `drops`.
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>);

    /// The next packet to send, or `None` if nothing may go now (see [`Qdisc::next_event`]).
    /// An AQM may drop packets on the way to it.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P>;

    /// The packet that `dequeue` would consider first, without taking it. An AQM may still drop it
    /// at that point.
    fn peek(&self) -> Option<&P>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// Whether `packet` could be enqueued now without any drop; asked by backpressure.
    fn probe(&self, now: Nanos, packet: &P) -> bool;

    /// How much more could be enqueued of [`class`](Packet::class); asked by backpressure about a
    /// packet that is not there yet. A packet that this has no room for is refused by
    /// [`Qdisc::probe`]; one that it has room for may be refused for its own sake, by its length or
    /// its flow. Unlimited where a qdisc does not say.
    fn room(&self, _class: u8) -> Room {
        Room::UNLIMITED
    }

    /// How many classes wait apart from each other, each with room of its own; classes past the last
    /// share the last. At most 256. One where all share one limit.
    fn classes(&self) -> usize {
        1
    }

    /// When `dequeue` can give a packet: `now` or earlier means at once, later means that a shaper
    /// holds it until then, `None` that nothing waits.
    fn next_event(&self, now: Nanos) -> Option<Nanos>;

    /// Hints that `packet` is about to be enqueued. With very many flows, calling this for each
    /// packet of a batch before enqueueing the first lets the flows' state come from memory all at
    /// once instead of one after the other. It changes nothing else, and may do nothing.
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
