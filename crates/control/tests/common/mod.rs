//! A model of the network around a bundle's loop, packet by packet in virtual time: TCP senders,
//! the sendbox's queue and shaper, a bottleneck, the receivebox. Runs repeat exactly for the same
//! seed.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod path;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod sendbox;
pub(crate) mod simulation;
pub(crate) mod tcp;
