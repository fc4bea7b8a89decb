//! A discrete-event network simulator, packet by packet, that runs the boxes' own queueing and
//! control code.
//!
//! A [`Simulation`] is put together from links (any qdisc of `forebay-queue`), bundles
//! (`forebay-control` behind a `forebay-queue` shaper, and a receivebox), routes through them and
//! traffic on those: TCP as Linux speaks it, and UDP. An [`Observer`] is told what happens. Time is
//! virtual, in nanoseconds; the same setup and seed give the same run on any machine.
//!
//! Everything that is made per packet lives in slabs that are reused: once a run has had as many
//! packets under way as it ever will, it allocates nothing.

mod boxes;
mod egress;
mod events;
mod link;
mod network;
mod observer;
mod packet;
mod pattern;
mod prague;
mod random;
mod simulation;
mod tcp;
mod traffic;
pub mod udp;

pub use boxes::{BoxCounters, BundleSetup};
pub use egress::{EgressCounters, EgressSetup, WhenFull};
pub use events::EventQueue;
pub use link::{Capacity, Jitter, LinkConfig, LinkCounters, Loss, Queue, Trace, TraceError};
pub use network::{BundleId, Hop, LinkId, Path, Route, RouteCounters, RouteId, SetupError};
pub use observer::{At, Observer, Passage};
pub use packet::Queued;
pub use pattern::{Datagram, Datagrams, Pattern, PatternError};
pub use random::Random;
pub use simulation::{Simulation, Totals};
pub use tcp::{Congestion, Pacing};
pub use traffic::{Asked, Asks, Connections, Stagger, Traffic, TrafficKind};
