//! The engine in virtual time: a real Linux kernel as a process of this machine.
//!
//! The guest is User-mode Linux, booted for one run with `time-travel=inf-cpu`: while anything can
//! run its clock stands still, and when nothing can, it jumps to the next timer. So a run depends on
//! neither this machine's speed nor on what else it does, and takes as long as its packets need.
//! Inside, the engine is [`crate::netns`] with the same boxes and traffic programs, on the kernel's
//! own TCP; a program that polls would stop the clock for ever, so all of them block.
//!
//! ```text
//!   this process                          │ the guest: one process pinned to one core
//!   ── order.json ──────────────────────▶ │ init (`forebay guest`) ── netns engine ── boxes, agents
//!   ◀─ beat.json (virtual time) ───────── │   host's files below a private overlay (hostfs)
//!   ◀─ run.jsonl or failure.json ──────── │   random numbers from the run's seed
//! ```
//!
//! The host's side builds the kernel once ([`kernel`]), boots it on a core of its own ([`cores`],
//! [`machine`]), turns beats into progress, ends a guest that makes none ([`watch`]) and names who
//! keeps it busy ([`culprit`]).

pub(crate) mod cores;
mod culprit;
mod engine;
mod guest;
mod kernel;
mod machine;
mod order;
mod watch;

use std::path::PathBuf;

use crate::engine::{EngineError, Interrupt};

pub use engine::Uml;
pub use guest::main as guest;
pub use kernel::Kernel;
pub(crate) use machine::reclaim;

/// Builds the guest's kernel if it is not there, which takes minutes, once.
///
/// # Errors
/// [`EngineError::Unfit`] if it cannot be built here, saying what to install; else if it was
/// interrupted or a step of the build failed.
pub fn prepare(interrupt: &Interrupt) -> Result<(), EngineError> {
    kernel_file(interrupt).map(|_| ())
}

/// The guest's kernel, for those who start guests of their own; built as by [`prepare`].
///
/// # Errors
/// As [`prepare`].
pub fn kernel_file(interrupt: &Interrupt) -> Result<PathBuf, EngineError> {
    kernel_of(Kernel::Plain, interrupt)
}

/// As [`kernel_file`], of any kernel that there is.
///
/// # Errors
/// As [`prepare`].
pub fn kernel_of(kernel: Kernel, interrupt: &Interrupt) -> Result<PathBuf, EngineError> {
    kernel::get(kernel, interrupt, &mut |_, _| {})
}
