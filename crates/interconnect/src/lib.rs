//! An ISP and its content providers in network namespaces, with real BGP daemons, to show hints at
//! work.
//!
//! ```text
//!   fb-ID-video  BIRD, servers ──┬──────────── fb-ID-west   GoBGP ──┐
//!                                ├──────────── fb-ID-north  GoBGP ──┼── fb-ID-core ── fb-ID-metro ── fb-ID-users
//!   fb-ID-cloud  BIRD, servers ──┴ (each) ──── fb-ID-east   GoBGP ──┘
//!   fb-ID-ops    `forebay plan serve`, on a network of its own to the speakers
//! ```
//!
//! The network is described by the planner's own files (`files`): routers, links and capacities,
//! providers with their sessions, prefixes. `blueprint` derives namespaces, wires, addresses and
//! routes, and `build` creates them. `daemons` starts the BGP speakers, `tables` reads the routes
//! that the providers chose, and `meter` counts traffic at the ISP's routers. `service` talks to
//! the planner's service in the roles of the operator and the providers; the service plans and
//! announces. `story` is the sequence: congest one entry, measure, hint, measure, withdraw.

#![forbid(unsafe_code)]

mod blueprint;
mod build;
mod daemons;
mod files;
mod http;
mod meter;
mod picture;
mod record;
mod service;
mod story;
mod tables;
mod text;
mod traffic;

pub use record::{Check, Record, Round, SCHEMA, Sample, Tables, Throughput};
pub use story::{Options, tell};
