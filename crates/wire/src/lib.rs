//! What packets look like on the wire: their headers, the fingerprint that both boxes know a packet
//! by, and the feedback protocol that the boxes speak with each other.
//!
//! Nothing in here does I/O, allocates or looks at a clock. Everything reads bytes that strangers
//! sent, so nothing in here panics on any input either.
#![no_std]

mod bytes;
mod epoch;
pub mod feedback;
mod fingerprint;
mod headers;

pub use epoch::{EpochSize, InvalidEpochSize, is_boundary};
pub use fingerprint::{Segment, fingerprint, fingerprint_segment};
pub use headers::{
    Fragment, Frame, Headers, MAC_DESTINATION, MAC_SOURCE, MAX_EXTENSIONS, MAX_TRANSPORT_OFFSET,
    MAX_VLAN_TAGS, ParseError, Ports, set_ce, vlan,
};
