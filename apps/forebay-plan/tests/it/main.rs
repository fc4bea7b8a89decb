//! Integration tests of the program `forebay-plan`.
//!
//! - The modules directly below need no root.
//! - [`live`] needs root, and each test runs in a process of its own. No verdict depends on how
//!   busy the machine is.
//! - [`measured`] takes long, and needs daemons.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod field_files;
mod flows;
mod live;
mod measured;
mod plan;
mod plan_formats;
mod serve;
mod signals;
