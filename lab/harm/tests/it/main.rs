//! Tests of the harm map in the simulator.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod map;
mod measured;
