//! Tests of qdiscs, of backpressure and of the egress engine through their public interface.
#![allow(clippy::unwrap_used, reason = "tests")]

mod backpressure;
mod egress;
mod no_alloc;
mod qdiscs;
