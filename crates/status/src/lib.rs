//! The state of running boxes: read from their sockets, and exported as metrics for Prometheus.

#![forbid(unsafe_code)]

#[cfg(feature = "exporter")]
mod exporter;
#[cfg(feature = "exporter")]
mod metrics;
mod read;

#[cfg(feature = "exporter")]
pub use exporter::run;
pub use read::{Answer, read};
