//! The egress engine with a driven clock.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cores;
mod flows;
mod pacing;
mod policies;
mod random;
mod world;
