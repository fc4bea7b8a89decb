//! Integration tests of the command `forebay`.
//!
//! - The modules directly below need no root.
//! - [`live`] needs root, and each test runs in a process of its own. No verdict depends on how
//!   busy the machine is.
//! - [`measured`] judges shares, rates and times. Some tests need a kernel for virtual time, or
//!   daemons.
//! - [`support`] has the networks, boxes and observers of both.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod compare;
#[cfg(feature = "plan")]
mod field_files;
#[cfg(feature = "plan")]
mod flows;
mod interop;
mod l4s_capture;
mod live;
mod measured;
mod output;
#[cfg(feature = "plan")]
mod plan;
#[cfg(feature = "plan")]
mod plan_formats;
mod rootless;
#[cfg(feature = "plan")]
mod serve;
mod settings;
#[cfg(feature = "plan")]
mod signals;
mod support;
