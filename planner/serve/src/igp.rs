//! Carries out metrics of OSPF or IS-IS at the routers of the ISP.
//!
//! Start at [`look`] and [`apply`]. [`config`] has the routers and [`journal`] the metrics before
//! the first change, which [`metrics`] describes for each protocol. [`frr`] reads and changes the
//! daemons of FRR: another daemon would take the place of that module. The order of changes is
//! [`forebay_plan::weights::order`].

pub mod config;
mod damped;
pub mod frr;
pub mod journal;
pub mod metrics;
mod possible;
mod run;

pub use crate::clock::now;
pub use run::{Error, How, Looked, Made, Session, apply, damped_for, look, range, withdraw};
