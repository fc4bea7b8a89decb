//! Queues of the kernel by netlink: the tree of queueing disciplines, classes and filters that a
//! sendbox makes below one device, so that no packet comes to user space.
//!
//! A [`Plan`] says what the tree is, and is only data: it can be printed ([`Plan`]'s `Display`),
//! compared with what is [found](Found) on a device, and brought about by a [`Tree`], which changes
//! only what differs. The tree is an HTB at the device's root; a class for each bundle, whose rate
//! the bundle's control loop sets; below it the bundle's policy; and everything that is in no bundle
//! past all of them, unshaped.
//!
//! If the daemon dies, its [`Supervisor`] lifts all limits and leaves the tree, which the next one
//! adopts. If somebody else changes the device, a [`Watch`] tells.

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
mod show;
mod statistics;
mod supervisor;
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
pub use statistics::Statistics;
pub use supervisor::{Outcome, Supervisor, supervise};
pub use tree::{Foreign, Tree};
pub use watch::{Event, Watch};
