use crate::Packet;

/// The number of a flow, which is one source to backpressure: a connection, a socket or a virtual
/// machine's ring.
///
/// The owner of the sources assigns numbers below [`Config::flows`](super::Config::flows). It may
/// reuse a number after [`Gate::remove`](super::Gate::remove).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A packet with the number of the flow that it comes from.
pub trait FlowPacket: Packet {
    /// Returns the flow. It must stay the same until the packet leaves the scheduled buffer.
    fn flow(&self) -> FlowId;
}

/// The result of a probe: whether a source may enqueue a packet, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The source may enqueue a packet: there is room, and it is this flow's turn.
    Go,
    /// The source must wait: the flow is already paused and will be resumed.
    Paused,
    /// The source must wait: the flow has reached its limit of packets in the buffer.
    Limit,
    /// The source must wait: other flows wait, and this flow's turn is over.
    Turn,
    /// The source must wait: the buffer has no room for the packet.
    Full,
}

impl Probe {
    /// Returns whether a packet may be enqueued.
    #[inline]
    pub fn is_go(self) -> bool {
        self == Self::Go
    }
}

/// The phase of a flow. zD's two states, active and paused (section 4.3.1), are each divided by the
/// event that ends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Active, without reserved room.
    #[default]
    Active,
    /// Active and resumed; room for one packet is reserved until the source responds.
    Resumed,
    /// Paused until there is room or until its turn, in the paused-flows queue.
    Queued,
    /// Paused because the qdisc refused its packet in spite of room; it retries when a packet
    /// leaves.
    Retrying,
    /// Paused at its limit of packets in the buffer; it queues when one of them leaves.
    AtLimit,
}

impl Phase {
    #[inline]
    pub(super) fn is_paused(self) -> bool {
        matches!(self, Self::Queued | Self::Retrying | Self::AtLimit)
    }
}

/// The state of a flow, without its links in the paused-flows queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// Packets in the scheduled buffer.
    pub(super) in_buffer: u16,
    /// Packets that the flow may still send in its turn.
    pub(super) turn: u8,
    pub(super) phase: Phase,
    /// The lane of the buffer that the flow last sent to or waits for.
    pub(super) lane: u8,
    /// The class of the packet that the flow waits with.
    pub(super) class: u8,
}

// With the 8 bytes of links a flow takes 16 bytes.
const _: () = assert!(size_of::<State>() <= 8);

impl State {
    /// Returns whether the flow uses or waits for a share of the buffer.
    #[inline]
    pub(super) fn contends(self) -> bool {
        self.in_buffer > 0 || self.phase != Phase::Active
    }
}
