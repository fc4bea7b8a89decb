//! Experiments: a path, traffic over it, and the arms that are compared.
//!
//! [`load`] reads an [`Experiment`] from a TOML file and checks all of it; whatever passes can be
//! run. A [`Scenario`] is one cell of the experiment. It does not depend on the engine that runs
//! it, which is this machine's Linux in real time, a kernel in virtual time, or the simulator.
//!
//! `docs/src/scenario.md` describes the file and all of its keys. The tables of the file are in
//! `file`, the checks in the other modules.

mod check;
mod classes;
mod conditions;
mod draw;
mod fault;
mod file;
mod grid;
mod model;
mod phase;
mod points;
mod queue;
mod rules;
mod traffic;
mod traffic_check;

pub use check::{load, parse};
pub use classes::{ClassShare, ClassShares};
pub use conditions::{Back, Conditions, Spread};
pub use fault::{Clock, Fault, FaultKind, Process};
pub(crate) use model::in_words;
pub use model::{Arm, Bundle, Experiment, IpVersion, LinkBox, Path, Records, Scenario, Sendbox};
pub use phase::Phase;
pub use points::{Axis, MAX_ERRORS, Points, load_joined};
pub use queue::{Maker, Queue};
pub use traffic::{Congestion, EcnField, Origin, Traffic, TrafficKind, Transport};

pub use forebay_discipline::{Kind as QueueKind, Profile};

use traffic::CongestionName;
#[cfg(feature = "linux")]
pub(crate) use traffic_check::MAX_SOCKETS;

/// The demonstration's experiment file, `experiments/demo.toml`.
pub const DEMO: &str = include_str!("../../../../experiments/demo.toml");

#[cfg(test)]
mod tests;
