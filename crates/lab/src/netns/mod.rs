//! The real-time engine: this machine's Linux, real boxes, in network namespaces.
//!
//! ```text
//!   fb-ID-a  site A ──── fb-in ┌ fb-ID-s  ┐ fb-out ── fb-left ┌ fb-ID-p ┐ fb-right ── fb-up ┌ fb-ID-r    ┐ fb-down ──── site B  fb-ID-b
//!                              └ sendbox  ┘                   └ link    ┘                   └ receivebox ┘
//!   fb-ID-x  cross ──────────────────────────────── fb-cross ─────┘
//! ```
//!
//! Each further site has a pair of namespaces of its own, `fb-ID-a2` and `fb-ID-s2`, and the link an
//! interface to it, `fb-left2`.
//!
//! Where the bottleneck's queue is the kernel's, the link's namespace has another pair of interfaces,
//! `fb-queue` with the queueing discipline and `fb-wire`, through which the link sends to itself.
//!
//! All hosts are in one subnet. The sendbox and the link are processes that pass frames between
//! their interfaces, the receivebox watches a bridge; with the kernel's queues at the sendbox
//! ([`Dataplane::Kernel`]) its two interfaces are in a bridge too.  Traffic programs run in the namespaces of the
//! hosts. Everything that a run sets up is noted in its run directory, removed when it ends in
//! whatever way, and, had the run no chance to, reclaimed by the next one.

mod addresses;
mod boxes;
pub(crate) mod capabilities;
mod collect;
mod dataplane;
pub mod exec;
mod faults;
pub mod namespace;
mod network;
pub mod process;
mod programs;
mod qdisc;
mod run;
pub mod run_dir;
mod senders;
mod steal_time;

pub use dataplane::Dataplane;
pub(crate) use qdisc::Timers;
pub(crate) use run::run_with;
pub use run::{Netns, run, usable};
