//! The interface through which a simulation reports what happens.

use forebay_control::{Event, Snapshot};
use forebay_units::{Bytes, Nanos};

use crate::headers::Headers;
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
    /// The time at which the packet left or was dropped.
    pub time: Nanos,
    /// The time that the packet waited.
    pub sojourn: Nanos,
    /// The length of the packet on the wire.
    pub len: Bytes,
    /// The [`crate::Route::source`] of its route.
    pub source: u8,
    /// The route of the packet.
    pub route: RouteId,
    /// The hash of the packet's flow.
    pub flow_hash: u32,
    /// Whether the queue dropped the packet.
    pub dropped: bool,
    /// Whether the queue marked the packet.
    pub marked: bool,
}

/// Receives what happens in a simulation, in the order of time. All methods do nothing by default.
pub trait Observer {
    /// Reports that a packet left a queue or was dropped.
    fn passed(&mut self, _at: At, _passage: &Passage) {}

    /// Returns whether [`Observer::captured`] is called too. It costs time for each packet.
    fn captures(&self) -> bool {
        false
    }

    /// Reports the headers of the packet that the latest call of [`Observer::passed`] was about.
    fn captured(&mut self, _at: At, _passage: &Passage, _headers: &Headers) {}

    /// Reports a tick of a control loop, with the `backlog` of its bundle's queue.
    fn ticked(&mut self, _bundle: BundleId, _now: Nanos, _state: &Snapshot, _backlog: Bytes) {}

    /// Reports an event of a control loop.
    fn decided(&mut self, _bundle: BundleId, _now: Nanos, _event: &Event) {}

    /// Reports that a receiver of a traffic's flow read `bytes`.
    fn read(&mut self, _traffic: usize, _flow: u32, _bytes: u64) {}

    /// Reports a round-trip time that a sender of a traffic's flow measured. It begins when TCP
    /// sends the segment and includes the queues of the sender's machine.
    fn round_trip(&mut self, _traffic: usize, _flow: u32, _took: Nanos) {}

    /// Reports a request for `size` bytes.
    ///
    /// `id` is its place in the schedule or a count; `connection` is the connection or the client.
    fn requested(&mut self, _traffic: usize, _id: u64, _connection: u32, _size: u64, _now: Nanos) {}

    /// Reports that request `id` of a traffic was answered.
    fn answered(&mut self, _traffic: usize, _id: u64, _now: Nanos) {}

    /// Reports that a round trip of a closed loop ended, or was given up (`None`).
    fn looped(&mut self, _traffic: usize, _flow: u32, _start: Nanos, _end: Option<Nanos>) {}
}

/// An observer that ignores everything.
impl Observer for () {}
