//! Tests of frames, of fingerprints in Rust and in C, and of the feedback protocol.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod c_agrees;
mod feedback;
mod headers;
mod sampling;
mod vectors;
