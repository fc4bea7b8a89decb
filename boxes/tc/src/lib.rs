//! The kernel's queues by netlink: the tree of queueing disciplines, classes and filters that a
//! sendbox sets up on one device, so that no packet enters user space.
//!
//! A [`Plan`] describes the tree as plain data. It can be printed (`Display`), compared with the
//! state of a device ([`Found`]), and installed by a [`Tree`], which changes only what differs. The
//! tree is an HTB at the device's root, with a class for each bundle. The bundle's control loop
//! sets the rate of the class, and the bundle's policy is below it. Packets of no bundle pass
//! unshaped.
//!
//! The tree outlives its daemon, and the next daemon adopts it. The program of [`Programs`] must
//! send no packets into the bundles' classes when the daemon is dead, since nothing changes their
//! rates then. A [`Watch`] reports changes that other programs make to the device.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod bpf;
mod device;
mod diff;
mod discipline;
mod encode;
mod error;
mod features;
mod found;
mod handle;
mod lock;
mod netlink;
mod plan;
mod record;
mod route;
mod share;
mod show;
mod statistics;
mod tree;
mod watch;

pub use bpf::Programs;
pub use device::Device;
pub use diff::{Step, steps};
pub use discipline::{CakeDiffserv, CakeFlows, Discipline, FifoLimit};
pub use error::Error;
pub use features::Features;
pub use found::{Found, Root};
pub use handle::{Handle, MAX_BUNDLES};
pub use plan::{BundleQueues, Class, Filter, Object, Plan, Program, Qdisc, QdiscKind, Shape};
pub use route::Route;
pub use share::{Share, parts};
pub use statistics::{QueueCounts, Statistics};
pub use tree::{Foreign, Tree};
pub use watch::{Event, Watch};
