//! Request workloads: how large the requests are and when they are asked for.
//!
//! A schedule depends on its parameters and its seed and on nothing else, so every arm of a
//! comparison, in every engine and on every machine, serves the same requests. The sampling is
//! written out here, over ChaCha8 and plain arithmetic, so that no library or libm version changes
//! it.

mod draw;
mod schedule;
mod sizes;

pub use schedule::{Arrivals, Asked, Requests, UnbalancedError};
pub use sizes::Sizes;
