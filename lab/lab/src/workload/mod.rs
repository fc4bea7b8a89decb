//! Request workloads: the sizes and times of requests.
//!
//! A schedule depends only on its parameters and its seed, so every arm of a comparison serves the
//! same requests, in every engine and on every machine. Sampling is written out here, over ChaCha8
//! and plain arithmetic, so that no version of a library or of libm changes it.

mod draw;
mod schedule;
mod sizes;

pub use draw::Draw;
pub use schedule::{Arrivals, Asked, Requests, UnbalancedError};
pub use sizes::Sizes;
