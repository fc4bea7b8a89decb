//! The records that boxes write about packets and decisions, and the laboratory reads.
//!
//! - [`HopCounters`] accounts for every packet of a box or a link.
//! - [`Tick`] is the state of a bundle's control loop, every 10 ms.
//! - [`Event`] is something that the loop decided or noticed.
//! - [`Status`] is the present state of a box.
//! - [`Reloaded`] is what became of a file that a box read again.
//! - [`Handover`] is what a box hands to the process that takes its place.
//! - [`KnownPaths`] is what a box knows of its paths, for the next process.
//! - [`packet_log`] has every packet that left a queue, in 16 bytes each.
//!
//! The names of fields are those of the stored files: an interface, like the keys of a
//! configuration.
#![forbid(unsafe_code)]

mod event;
mod handover;
mod hop;
pub mod packet_log;
mod paths;
mod status;
mod tick;

pub use event::{Event, Value};
pub use handover::{
    HANDOVER_SOCKET, HANDOVER_VERSION, Handover, HandoverError, MAX_HANDOVER, Offer,
    ReceiveHandover, SendHandover, Taken, UPGRADE_SOCKET,
};
pub use hop::{HopCounters, Late};
pub use paths::{KnownPath, KnownPaths, MAX_PATHS, MAX_PATHS_BYTES, PATHS_VERSION, PathsError};
pub use status::{
    ClassWait, Decision, NotUnderstood, RELOAD_SOCKET, ReceiveStatus, Reloaded, STATUS_SOCKET,
    STATUS_VERSION, SendStatus, Status, Wait, WaitsHere,
};
pub use tick::Tick;
