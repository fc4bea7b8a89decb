//! The clock, waits, signals, locks and private files of a process on Linux.

pub mod clock;
mod lock;
pub mod private;
pub mod signals;
pub mod wait;

pub use lock::NameLock;
