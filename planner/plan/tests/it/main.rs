//! Tests of the planner: properties of allocations, plans and hints, and readers of files.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod allocation;
mod hints;
mod plan;
mod readers;
mod tshark;
