//! What a process of Forebay needs of Linux beside packets: a clock, waits, signals and locks.

pub mod clock;
mod lock;
pub mod signals;
pub mod wait;

pub use lock::NameLock;
