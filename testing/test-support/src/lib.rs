//! What tests of several crates share.
//!
//! - [`skip`] and [`has_root`] report tests that this machine cannot run, and [`without_root`]
//!   drops root's rights.
//! - [`Dir`] is a directory of a test's own, and [`repository`] a git repository in one.
//! - [`namespace`] and [`tun`] make network namespaces and TUN devices, [`queues`] trees of the
//!   kernel's queues.
//! - [`process`] finds and runs programs of the workspace, and waits for what they do.
//! - [`traces`] observes what runs of the laboratory leave behind.
//! - [`frames`] has the frames of the shared vectors, and random ones.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

pub mod dir;
#[cfg(feature = "frames")]
pub mod frames;
pub mod namespace;
pub mod process;
#[cfg(feature = "queues")]
pub mod queues;
pub mod repository;
pub mod rights;
pub mod skip;
pub mod traces;
pub mod tun;

pub use dir::Dir;
pub use rights::without_root;
pub use skip::{FILE, Need, has_root, is_root, skip, skip_named};
