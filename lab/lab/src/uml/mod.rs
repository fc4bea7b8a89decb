//! The engine in virtual time: a real Linux kernel as a process of this machine.
//!
//! The guest is User-mode Linux, booted for one run with `time-travel=inf-cpu`. While a process can
//! run, its clock stands still; when none can, the clock jumps to the next timer. So a run does not
//! depend on this machine's speed or load, and takes as long as its packets need. Inside, the
//! engine is [`crate::netns`] with the same boxes and traffic programs, on the kernel's own TCP. A
//! program that polls would stop the clock for ever, so all programs block.
//!
//! ```text
//!   this process                          │ the guest: one process pinned to one core
//!   ── order.json ──────────────────────▶ │ init (`forebay guest`) ── netns engine ── boxes
//!   ◀─ beat.json (virtual time) ───────── │   host's files below a private overlay (hostfs)
//!   ◀─ run.jsonl or failure.json ──────── │   random numbers from the run's seed
//! ```
//!
//! The crate `forebay-guest` builds the kernel once and boots it on its own core. The host's side
//! turns beats into progress, ends a guest that makes none ([`watch`]) and names the process that
//! keeps it busy.

mod engine;
mod guest;
mod memory;
mod order;
mod watch;

use forebay_guest::Kernel;

use crate::engine::{EngineError, Interrupt};

pub use engine::Uml;
pub use guest::main as guest;

/// Builds the guest's kernel if it does not exist, which takes minutes.
///
/// # Errors
///
/// [`EngineError::Unfit`] if it cannot be built here, with what to install; or if it was
/// interrupted or a step of the build failed.
pub fn prepare(interrupt: &Interrupt) -> Result<(), EngineError> {
    forebay_guest::kernel_file(Kernel::Plain, interrupt).map(|_| ())
}
