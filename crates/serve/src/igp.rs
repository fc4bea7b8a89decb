//! Carries out metrics of OSPF at the routers of the ISP.
//!
//! Start at [`look`] and [`apply`]. [`config`] has the routers and [`journal`] the metrics before
//! the first change. [`frr`] reads and changes the daemons of FRR: another daemon would take the
//! place of that module. The order of changes is [`forebay_plan::weights::order`].

pub mod config;
pub mod frr;
pub mod journal;
mod run;

pub use run::{Error, Looked, Made, Session, apply, look, withdraw};
