use forebay_control::{Event, Snapshot};
use forebay_units::{Bytes, Nanos};

use crate::network::{BundleId, LinkId, RouteId};

/// A queue whose packets are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The queue of a link.
    Link(LinkId),
    /// The queue of a bundle at its sendbox.
    Sendbox(BundleId),
}

/// A packet's passage through a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it left, or was dropped.
    pub time: Nanos,
    /// How long it had waited.
    pub sojourn: Nanos,
    /// Its length on the wire.
    pub len: Bytes,
    /// Its route's [`crate::Route::source`].
    pub source: u8,
    /// The way that it takes.
    pub route: RouteId,
    /// Whether the queue dropped it,
    pub dropped: bool,
    /// and whether it set its congestion mark.
    pub marked: bool,
}

/// Told of what happens, in the order of time; does nothing by itself.
pub trait Observer {
    /// A packet left a queue.
    fn passed(&mut self, _at: At, _passage: &Passage) {}

    /// A control loop has ticked; `backlog` waits in its bundle's queue.
    fn ticked(&mut self, _bundle: BundleId, _now: Nanos, _state: &Snapshot, _backlog: Bytes) {}

    /// A control loop decided or noticed something.
    fn decided(&mut self, _bundle: BundleId, _now: Nanos, _event: &Event) {}

    /// A receiver of a traffic's flow read `bytes`.
    fn read(&mut self, _traffic: usize, _flow: u32, _bytes: u64) {}

    /// A sender of a traffic's flow measured a round trip: from the instant at which its TCP sent a
    /// segment, the time in queues of its own machine included.
    fn round_trip(&mut self, _traffic: usize, _flow: u32, _took: Nanos) {}

    /// A request for `size` bytes was asked, the traffic's number `id`: its place in a schedule, or
    /// a count; on which of its connections, or by which of its clients.
    fn asked(&mut self, _traffic: usize, _id: u64, _connection: u32, _size: u64, _now: Nanos) {}

    /// Request `id` of a traffic was answered.
    fn answered(&mut self, _traffic: usize, _id: u64, _now: Nanos) {}

    /// A round trip of a closed loop ended, or was given up (`None`).
    fn looped(&mut self, _traffic: usize, _flow: u32, _start: Nanos, _end: Option<Nanos>) {}
}

/// Nobody looks.
impl Observer for () {}
