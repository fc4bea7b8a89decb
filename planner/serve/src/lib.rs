//! The planner as a service (Unison; Yimeng Zhao's thesis, section 3.3).
//!
//! Neighbours get a view of their own vSwitch, put programs, and receive hints. Every few minutes a
//! round computes a new plan from current measurements.
//!
//! Start at [`run`]. [`service`] has the state and the answers, without sockets or clocks. [`http`]
//! serves it over the connections of [`forebay_web`]. [`round`] computes one round, and [`rounds`]
//! runs them. [`store`] keeps the state on disk, and [`speaker`] announces routes. [`collect`]
//! receives flow records, and [`kafka`] reads relayed ones. [`bmp`] receives the routes of routers,
//! and [`learn`] keeps them. [`history`] is for a database.
//!
//! [`neighbour`] is the other side: the client of a content provider. [`ingress`] is the client at
//! a router of the ISP, which carries out paths. [`igp`] carries out metrics.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod bmp;
mod clock;
pub mod collect;
pub mod command;
pub mod config;
pub mod damping;
pub mod files;
pub mod history;
pub mod http;
pub mod igp;
pub mod ingress;
pub mod inputs;
pub mod kafka;
pub mod learn;
pub mod limit;
mod lock;
mod metrics;
pub mod neighbour;
mod page;
pub mod round;
pub mod rounds;
pub mod routes;
mod run;
pub mod service;
pub mod speaker;
pub mod store;
pub mod topology_check;

pub use config::Config;
pub use forebay_web::{answer, events, token};
pub use run::{Error, Ready, SUPERVISOR, Stop, check, run, supervise};
