//! The state of a UDP flow.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use crate::network::Path;
use crate::pattern::{Datagram, Datagrams};
use crate::udp::{Sink, Window, prague};

/// Both ends of a UDP flow.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) traffic: u32,
    pub(crate) flow: u32,
    pub(crate) path: Path,
    pub(crate) hash: u32,
    /// The number of packets sent, for fingerprints.
    pub(crate) made: u64,
    pub(crate) stop: Nanos,
    /// The time of the earliest pending timer event.
    pub(crate) awaited: Nanos,
    pub(crate) kind: SocketKind,
}

/// The state of a UDP flow by its kind.
#[derive(Debug)]
pub(crate) enum SocketKind {
    /// A backlogged flow; the window exists while the traffic lasts.
    Bulk { window: Option<Window>, sink: Sink },
    /// A backlogged flow with Prague; the sender exists while the traffic lasts.
    Prague { sender: Option<Box<prague::Sender>>, receiver: Box<prague::Receiver> },
    /// A pattern with its next datagram and the ones after it.
    Pattern { start: Nanos, next: Datagram, rest: Datagrams, ecn: Ecn },
    /// A closed loop with the time of its open request, if any.
    Loop { round: u64, asked: Option<Nanos> },
}
