//! Tests of the service and its clients over sockets.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod live;
mod measured;
mod neighbour;
mod tls;
