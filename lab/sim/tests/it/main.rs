//! Tests of whole networks, of machines with many flows, and of endpoints of a caller.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod dumbbell;
mod egress;
mod endpoints;
