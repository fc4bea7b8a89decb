//! Tests of the sockets with threads in memory, and with real connections over loopback.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod connections;
mod socket;
