//! Tests of QUIC over the simulator, and of its endpoints over sockets.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod downloads;
mod real_time;
mod twenty_lines;
