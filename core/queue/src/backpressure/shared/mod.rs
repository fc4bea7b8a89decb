//! Backpressure between threads: sources on their own threads and one scheduler, without locks.
//!
//! [`pair`] creates [`Sources`], which hands out a [`Source`] for each flow, and the [`Scheduler`],
//! which owns the scheduled buffer. A source *reserves* a slot of the buffer and then passes its
//! packet to the scheduler over any channel. The scheduler reports each packet that has left and
//! gets the flows to resume. No operation waits for another thread.
//!
//! The caller wakes the threads, since waking needs an operating system. [`Source::reserve`],
//! [`Source::idle`] and [`Source::close`] return whether to wake the scheduler, which then calls
//! [`Scheduler::resume`]. The caller also wakes the scheduler for every packet passed to it, as
//! channels do.
//!
//! **No wake-up is lost.** Consider a source that finds no slot and queues, while the scheduler
//! frees a slot and finds no queued flow. Each side writes one value and then reads the other
//! side's. The source adds its flow to the inbox, then reads the number of free slots. The
//! scheduler adds to the free slots, then reads the inbox. Both have a sequentially consistent
//! fence between the write and the read, so at least one side sees the other's write. If it is the
//! source, it reports that the scheduler must be woken; if it is the scheduler, it resumes the
//! flow. The same two steps apply when a source returns a slot that it does not use. `models`
//! checks all interleavings of small cases with loom.
//!
//! Flows are resumed in the order in which they queued. The scheduler holds the waiting flows. A
//! flow enters through a stack that is always emptied as a whole, so there is no ABA problem.

#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod models;
mod pair;
mod scheduler;
mod source;
mod state;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use pair::{Config, pair};
pub use scheduler::Scheduler;
pub use source::{Reserve, Source, Sources};
