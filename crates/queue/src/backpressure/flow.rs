use crate::Packet;

/// A flow, as far as backpressure tells sources apart: a connection, a socket, a virtual machine's
/// ring. A number below [`Config::flows`](super::Config::flows) that its owner gives out, and may
/// give out again once [`Gate::remove`](super::Gate::remove) was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A packet that knows which source buffer it comes from.
pub trait FlowPacket: Packet {
    /// The flow, the same from the source buffer until the packet leaves the scheduled buffer.
    fn flow(&self) -> FlowId;
}

/// What a source may do, the answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Enqueue a packet: there is room, and it is this flow's turn.
    Go,
    /// Wait: the flow is paused already, and will be resumed.
    Paused,
    /// Wait: the flow has as many packets in the buffer as it may have.
    Limit,
    /// Wait: others wait, and this flow's turn is over.
    Turn,
    /// Wait: the buffer has no room for it.
    Full,
}

impl Probe {
    /// Whether a packet may be enqueued.
    #[inline]
    pub fn is_go(self) -> bool {
        self == Self::Go
    }
}

/// What a flow is doing. zD has two states (section 4.3.1), active and paused; here each is told
/// apart by what ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Active.
    #[default]
    Active,
    /// Active, resumed and not heard of since: room is kept for one packet.
    Invited,
    /// Paused for room or for its turn, in the paused-flows queue.
    Queued,
    /// Paused because the buffer refused its packet in spite of room: it tries again when one leaves.
    Retrying,
    /// Paused with as many packets in the buffer as it may have: it queues when one of them leaves.
    Held,
}

impl Phase {
    #[inline]
    pub(super) fn is_paused(self) -> bool {
        matches!(self, Self::Queued | Self::Retrying | Self::Held)
    }
}

/// What is kept of a flow, beside its links in the paused-flows queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// Packets in the scheduled buffer.
    pub(super) in_buffer: u16,
    /// Packets that it may still send in its turn.
    pub(super) turn: u8,
    pub(super) phase: Phase,
    /// The part of the buffer that it last sent to or waits for.
    pub(super) lane: u8,
    /// The class that it waits with.
    pub(super) class: u8,
}

/// Beside 8 bytes of links.
const _: () = assert!(size_of::<State>() <= 8);

impl State {
    /// Whether it takes or wants a share of the buffer.
    #[inline]
    pub(super) fn contends(self) -> bool {
        self.in_buffer > 0 || self.phase != Phase::Active
    }
}
