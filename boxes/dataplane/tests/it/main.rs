//! Ports, BPF programs and senders in real network namespaces.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cpus;
mod egress;
mod live;
mod measured;
mod pair;
mod seen;
mod sites;
mod tunnel;

use std::time::Duration;

/// Bounds a wait for something that happens soon; only a fault takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);
