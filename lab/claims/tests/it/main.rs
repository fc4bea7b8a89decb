//! Tests of claims whose runs are short enough for every test run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod measured;
mod robustness;
