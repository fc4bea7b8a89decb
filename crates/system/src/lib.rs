//! The clock, waits, signals and locks of a process on Linux.

pub mod clock;
mod lock;
pub mod signals;
pub mod wait;

pub use lock::NameLock;
