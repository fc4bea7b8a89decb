//! Tests of the exporter over HTTP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "exporter")]
mod exporter;
