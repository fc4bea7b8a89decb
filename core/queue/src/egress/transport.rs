//! The interface to the transport, which owns the flows' data.

use forebay_units::{Bytes, Nanos};

use super::{FlowId, Load};

/// A transport that the engine asks for the segments of a flow when it is the flow's turn.
///
/// The transport passes the segments on itself, to a ring of a network interface or to a socket, so
/// the engine neither stores nor copies them. It reports with
/// [`Engine::departed`](super::Engine::departed) when they have left the host.
pub trait Transport {
    /// Sends segments of `ask.flow` that have `ask.bytes` together at most. The first segment may
    /// be longer, since otherwise the flow could never send it.
    fn send(&mut self, ask: Ask<'_>) -> Answer;

    /// Prefetches what the transport stores about `flow`, which is asked soon.
    #[inline]
    fn prefetch(&mut self, flow: FlowId) {
        let _ = flow;
    }
}

/// What the engine asks of a transport when it is a flow's turn.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The flow whose turn it is.
    pub flow: FlowId,
    /// The time of the turn. A round-trip time begins here.
    pub now: Nanos,
    /// The pacing time, at most `now`: when the flow could send at the earliest. Zero for a flow
    /// that never had a rate.
    pub due: Nanos,
    /// The bytes that the flow may send: its burst, or the room if that is less.
    pub bytes: Bytes,
    /// The state of the host's own queues, for a transport that adapts to it.
    pub load: &'a Load,
}

/// What the transport sent, and whether it has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The bytes sent.
    pub bytes: Bytes,
    /// The packets sent. None at all means that the flow had nothing to send.
    pub packets: u32,
    /// What the flow does next.
    pub next: Next,
}

/// What a flow does after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The flow has nothing to send, or may not. [`Engine::wake`](super::Engine::wake) ends this.
    Idle,
    /// The flow has more to send.
    Ready(Hint),
}

/// What policies need to know about data that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The bytes that the flow has left to send, for the policy that serves the shortest first.
    pub remaining: Bytes,
    /// When the next segment must have left, for the policy that serves the earliest deadline
    /// first.
    pub deadline: Nanos,
}

impl Default for Hint {
    /// Returns the hint of a flow of unknown length without a deadline.
    fn default() -> Self {
        Self { remaining: Bytes(u64::MAX), deadline: Nanos::MAX }
    }
}
