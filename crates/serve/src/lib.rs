//! The planner as a service (Unison; Yimeng Zhao, section 3.3): neighbours see their own vSwitch, put programs, and get
//! hints; every few minutes a round plans anew with what is measured then.
//!
//! Begin at [`run`]. [`service`] knows and answers, without a socket or a clock; [`http`] carries that over connections
//! whose number, sizes and times have bounds; [`round`] is one round, and [`rounds`] runs them; [`store`] keeps all of it
//! on the disk; [`speaker`] announces; [`collect`] takes flow records off the network.

pub mod answer;
mod clock;
pub mod collect;
pub mod config;
pub mod damping;
pub mod events;
pub mod files;
pub mod http;
pub mod inputs;
pub mod limit;
mod lock;
mod metrics;
mod page;
pub mod round;
pub mod rounds;
pub mod routes;
mod run;
pub mod service;
pub mod speaker;
pub mod store;
pub mod token;

pub use config::Config;
pub use run::{Error, SUPERVISOR, Stop, check, run, supervise};
