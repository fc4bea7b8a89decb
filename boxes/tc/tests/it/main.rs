//! Queues of real devices, in network namespaces of the test's own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod live;
