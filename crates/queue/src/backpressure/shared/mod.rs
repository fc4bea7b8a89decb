//! Backpressure between threads: sources each on a thread of its own, one scheduler, atomics only.
//!
//! [`pair`] makes [`Sources`], from which each source takes a [`Source`] for its flow, and the
//! [`Scheduler`], which owns the scheduled buffer. A source *reserves* a slot of the buffer, then hands its
//! packet over by whatever channel there is; the scheduler reports each packet that has left, and
//! hears which flows to resume. No operation waits for another thread or takes a lock.
//!
//! Waking a thread is the caller's, since it is the only part that needs an operating system. Three
//! calls answer with a `ring`: the scheduler has to be woken, if it sleeps, and call
//! [`Scheduler::resume`]. Besides, wake it for every packet that is handed over, as any channel
//! does.
//!
//! **No lost wake-up.** Between a source that finds no slot and queues, and a scheduler that frees
//! one and finds nobody queued, each writes one thing and then reads the other's: the source adds
//! its flow to the inbox, then reads the number of free slots; the scheduler adds to the free slots,
//! then reads the inbox. With a sequentially consistent fence between the two in both, at least one
//! sees what the other wrote. If it is the source, its answer says to ring; if it is the scheduler,
//! it resumes the flow. The same pair of steps is there when a source gives back the slot of a turn
//! that it does not use. `models` runs all interleavings of small cases through loom.
//!
//! The order of the paused is that in which they queued. Waiting flows are kept by the scheduler;
//! a flow enters by a stack that is only ever emptied whole, so there is no ABA problem.

#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod models;
mod scheduler;
mod source;
mod state;
mod sync;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use scheduler::Scheduler;
pub use source::{Reserve, Source, Sources};
pub use state::{Config, pair};
