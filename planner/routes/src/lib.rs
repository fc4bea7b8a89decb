//! A table of BGP routes, learned from MRT table dumps (RFC 6396) and from routers by BMP (RFC
//! 7854).
//!
//! Start from [`table::Table`]. [`mrt::load`] fills it from a dump, and [`bmp::Session`] keeps it
//! up to date from the octets of a router's connection. [`table::Table::longest`] finds the routes
//! of an address, and [`table::Table::originated_by`] the prefixes of an AS.
//!
//! [`table::Table::graph`] has the links and nodes of the network, if routers report them by
//! BGP-LS.
//!
//! The crate opens no socket and reads no clock. What it reads may be hostile: every length is
//! checked, and every table has a bound.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod bmp;
pub mod link_state;
pub mod mrt;
mod nlri;
mod octets;
pub mod table;

/// Octets that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The octets end within a field.
    #[error("ends within a field")]
    Short,
    /// A prefix is longer than its address family allows.
    #[error("has a prefix that is too long")]
    PrefixLength,
    /// A path attribute has a length or a value that its definition excludes.
    #[error("has path attribute {0} in a form that does not exist")]
    Attribute(u8),
    /// A route is of a peer that no table of peers has.
    #[error("names peer {0}, which no table of peers before it has: is the file's start missing?")]
    Peer(u16),
    /// A message has a header that does not exist.
    #[error("has a header that does not exist")]
    Header,
}
