//! The real-time engine: this machine's Linux and real boxes in network namespaces.
//!
//! ```text
//!   fb-ID-a  site A ──── fb-in ┌ fb-ID-s  ┐ fb-out ── fb-left ┌ fb-ID-p ┐
//!                              └ sendbox  ┘                   └ link    ┘ ── fb-right
//!   fb-ID-x  cross ──────────────────────────────── fb-cross ─────┘
//!
//!   fb-up ┌ fb-ID-r    ┐ fb-down ──── site B  fb-ID-b
//!         └ receivebox ┘
//! ```
//!
//! Each further site has two more namespaces, `fb-ID-a2` and `fb-ID-s2`, and the link has one more
//! interface, `fb-left2`. If the bottleneck's queue is the kernel's, the link's namespace has
//! another veth pair: `fb-queue` with the queueing discipline, and `fb-wire`.
//!
//! All hosts are in one subnet. The sendbox and the link are processes that pass frames between
//! their interfaces; the receivebox watches a bridge. With the kernel's queues at the sendbox
//! ([`Dataplane::Kernel`]) the sendbox is a router. Traffic programs run in the namespaces of the
//! hosts.
//!
//! A run notes everything that it sets up in its run directory ([`run_dir`]) and removes it at the
//! end. The next run removes what a killed run left behind.

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
pub use run::{Netns, usable};
