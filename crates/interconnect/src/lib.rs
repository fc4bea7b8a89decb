//! An ISP and its content providers in network namespaces, with BGP daemons of others: hints seen at work.
//!
//! ```text
//!   fb-ID-video  BIRD, servers ──┬──────────── fb-ID-west   GoBGP ──┐
//!                                ├──────────── fb-ID-north  GoBGP ──┼── fb-ID-core ── fb-ID-metro ── fb-ID-users
//!   fb-ID-cloud  BIRD, servers ──┴ (each) ──── fb-ID-east   GoBGP ──┘
//!   fb-ID-ops    `forebay plan serve`, on a network of its own to the speakers
//! ```
//!
//! The network is what the planner reads (`files`): routers, links and capacities, providers with their
//! sessions, prefixes. `blueprint` works out the namespaces, wires, addresses and routes of it, `build` makes them.
//! `daemons` starts the speakers, `tables` reads what the providers made of what they heard, `meter` counts at the
//! ISP's routers, and `service` talks to the planner's service, which plans and announces, as the operator and the
//! providers do. `story` puts them together: congest one entry, measure, hint, measure, take back.

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
