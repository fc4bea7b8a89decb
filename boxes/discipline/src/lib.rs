//! Queueing disciplines as configurations and scenarios name them.
//!
//! A [`Discipline`] is a [`Kind`] and its [`Settings`]. It can be read from a box's configuration
//! ([`PolicyTable`]), be built as a queue of this project ([`Discipline::build`]), and be
//! translated to the kernel's queue of the same name ([`Discipline::to_tc`]). At a bottleneck of
//! the laboratory it becomes a [`QueueSpec`], which has every setting.
//!
//! # Adding a discipline
//!
//! A discipline is one file in this crate that implements `Specification`. Two lines make it known
//! everywhere: `mod` below, and its line in `registry.rs`. Then boxes take it as a policy, and
//! scenarios take it at the bottleneck and as a sendbox's policy, with every engine. A setting that
//! no other discipline has takes one line more, in `settings.rs`.
#![forbid(unsafe_code)]

mod cake;
mod codel;
mod dualpi2;
mod fifo;
mod fq_codel;
mod fq_pie;
mod pi2;
mod pie;
mod sfq;
mod strict;
mod weighted;

mod discipline;
mod limit;
mod owner;
mod queue_spec;
mod registry;
mod settings;
mod specification;
mod table;

pub use discipline::Discipline;
pub use dualpi2::Classes as DualPi2Classes;
pub use limit::LimitOnPath;
pub use owner::QueueOwner;
pub use queue_spec::QueueSpec;
pub use registry::Kind;
pub use settings::{BaseAqm, Burst, Key, PolicyTable, Profile, Settings};
pub use specification::{BuildError, EcnUse, KernelOnly};

#[cfg(test)]
mod tests;
