use forebay_queue::Ecn;
use forebay_units::Nanos;

use crate::network::Path;
use crate::pattern::{Datagram, Datagrams};
use crate::udp::{Sink, Window, prague};

/// A UDP flow, both ends.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) traffic: u32,
    pub(crate) flow: u32,
    pub(crate) path: Path,
    pub(crate) hash: u32,
    /// Packets made, for fingerprints.
    pub(crate) made: u64,
    pub(crate) stop: Nanos,
    /// The earliest event that will look at it.
    pub(crate) awaited: Nanos,
    pub(crate) kind: SocketKind,
}

#[derive(Debug)]
pub(crate) enum SocketKind {
    Bulk {
        window: Option<Window>,
        sink: Sink,
    },
    /// The sender is there while the traffic lasts.
    Prague {
        sender: Option<Box<prague::Sender>>,
        receiver: Box<prague::Receiver>,
    },
    /// The next datagram, with the time that it is sent at, and those after it.
    Pattern {
        start: Nanos,
        next: Datagram,
        rest: Datagrams,
        /// What they say of it, whether or not they heed marks.
        ecn: Ecn,
    },
    Loop {
        round: u64,
        asked: Option<Nanos>,
    },
}
