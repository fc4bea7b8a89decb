//! A model of the network around a bundle's loop, packet by packet in virtual time: TCP senders,
//! the sendbox's queue and shaper, a bottleneck, the receivebox. Runs repeat exactly for the same
//! seed.

pub(crate) mod path;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod seeds;
pub(crate) mod sendbox;
pub(crate) mod simulation;
pub(crate) mod tcp;
