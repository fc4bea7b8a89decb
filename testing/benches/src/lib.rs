//! Loads that several benchmarks measure.
//!
//! - [`fleet`] has bundles for the control loop.
//! - [`packets`] has packets of random flows for queues.
//! - [`networks`] has networks for the simulator.

pub mod fleet;
pub mod networks;
pub mod packets;
