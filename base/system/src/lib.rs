//! The clock, waits, signals, locks, outputs, private files, local sockets and privileges of a
//! process on Linux, its messages to the service manager, and text of others.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod clock;
pub mod descriptors;
pub mod epoll;
mod limits;
pub mod local;
mod lock;
pub mod notify;
pub mod output;
pub mod private;
pub mod privileges;
pub mod signals;
pub mod text;
pub mod wait;

pub use limits::{allow_open_files, own_descriptors};
pub use lock::NameLock;
