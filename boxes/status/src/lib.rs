//! The state of running boxes: read from their sockets, judged, and exported as metrics for
//! Prometheus.

#![forbid(unsafe_code)]

mod earlier;
#[cfg(feature = "exporter")]
mod exporter;
#[cfg(feature = "exporter")]
mod metrics;
mod read;
mod socket;
mod verdict;

#[cfg(feature = "exporter")]
pub use exporter::run;
pub use read::{Answer, find, parse, read, reload};
pub use socket::BoxSocket;
pub use verdict::{BURSTY_MS, IDLE_BPS, QUEUE_MS, Recent, State, Verdict, sentence};
