//! The client at an ingress router: it carries out the plan's paths inside the network as SRv6
//! routes of Linux (RFC 8754, RFC 8986).
//!
//! Start at [`watch`]. [`config`] has the settings, and [`answer`] the answers of the service.
//! [`decide`] chooses what is steered, and [`change`] orders the changes; neither has sockets,
//! files or clocks. [`linux`] reads and changes the kernel's routes through iproute2.

pub mod answer;
pub mod change;
pub mod config;
pub mod decide;
pub mod linux;
mod run;

pub use run::{Error, Event, Looked, SUPERVISOR, look, supervise, watch, withdraw};
