//! Integration tests of the program `forebay-lab`. Those with boxes need the program `forebay`
//! beside it, which a build of the workspace makes.
//!
//! - The modules directly below need no root.
//! - [`live`] needs root, and each test runs in a process of its own. No verdict depends on how
//!   busy the machine is.
//! - [`measured`] judges shares, rates and times. Some tests need a kernel for virtual time.
//! - [`support`] has the runs and networks of both.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod compare;
mod interop;
mod live;
mod measured;
mod output;
mod rootless;
mod settings;
mod support;
