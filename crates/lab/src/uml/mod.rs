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
//! The crate `forebay-guest` builds the kernel once and boots it on a core of its own. The host's
//! side turns beats into progress, ends a guest that makes none ([`watch`]) and names the process
//! that keeps it busy.

mod engine;
mod guest;
mod memory;
mod order;
mod watch;

use forebay_guest::Kernel;

use crate::engine::{EngineError, Interrupt};

pub use engine::Uml;
pub use guest::main as guest;

/// Builds the guest's kernel if it is not there, which takes minutes, once.
///
/// # Errors
/// [`EngineError::Unfit`] if it cannot be built here, saying what to install; else if it was
/// interrupted or a step of the build failed.
pub fn prepare(interrupt: &Interrupt) -> Result<(), EngineError> {
    forebay_guest::kernel_file(Kernel::Plain, interrupt).map(|_| ())
}
