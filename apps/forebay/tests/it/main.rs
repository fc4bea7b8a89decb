//! Integration tests of the program `forebay`. Some need the program `forebay-lab` beside it, which
//! a build of the workspace makes.
//!
//! - The modules directly below need no root.
//! - [`live`] needs root, and each test runs in a process of its own. No verdict depends on how
//!   busy the machine is.
//! - [`measured`] judges shares, rates and times.
//! - [`support`] has the networks, boxes and observers of both.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod l4s_capture;
mod live;
mod measured;
mod other;
mod output;
mod signals;
mod support;
