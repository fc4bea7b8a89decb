//! A discrete-event network simulator that runs the boxes' own queueing and control code.
//!
//! Start with [`Simulation`], to which a caller adds links, routes and traffic, and with
//! [`Observer`], which receives every packet, tick and answer. The example `cubic_flow` simulates a
//! bottleneck with a Cubic flow. [`Endpoint`] is for protocol stacks of the caller, which exchange
//! real datagrams over the same network.
//!
//! A network consists of links (with any qdisc of `forebay-queue`), bundles (`forebay-control` with
//! a `forebay-queue` shaper, and a receivebox), routes through them, and traffic on the routes: TCP
//! as in Linux, UDP, and endpoints of the caller. Time is virtual, in nanoseconds. The same setup
//! and seed give the same run on any machine.
//!
//! State per packet is in slabs that are reused. Once a run has reached its largest number of
//! packets in transit, it allocates nothing.
#![forbid(unsafe_code)]

mod boxes;
mod egress;
mod endpoint;
mod events;
mod headers;
mod junction;
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
pub use egress::{EgressCounters, EgressSetup, GuestQueue, WhenFull};
pub use endpoint::{Endpoint, EndpointCounters, EndpointId, Received, Transmit};
pub use events::EventQueue;
pub use headers::{Content, Headers, PacketFate, TcpHeader};
pub use junction::Junction;
pub use link::{
    Capacity, DelayTrace, Jitter, LinkConfig, LinkCounters, Loss, Policer, PolicerConfig,
    Propagation, PropagationConfig, Queue, Trace, TraceError, Wire,
};
pub use network::{BundleId, Hop, LinkId, Path, Route, RouteCounters, RouteId, SetupError};
pub use observer::{At, Observer, Passage};
pub use packet::Queued;
pub use pattern::{Datagram, Datagrams, Pattern, PatternError};
pub use random::Random;
pub use simulation::{FlowState, Simulation, Totals};
pub use tcp::{Congestion, Pacing};
pub use traffic::{Connections, RequestTiming, ScheduledRequest, Stagger, Traffic, TrafficKind};
