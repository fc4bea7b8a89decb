//! An ISP and its content providers in network namespaces, with real BGP daemons, to show hints at
//! work.
//!
//! ```text
//!                                  ┌─ west ──┬───── core1 ─ core2 ─┐
//!   video (BIRD, servers) ──┐      ├─ north ─┘    ╱          │     ├─ metro ── users
//!                           ├──────┤       (west) ── core3 ─ core4 ─┘
//!   cloud (BIRD, servers) ──┘      └─ east ───────────────── core2
//!   ops    `forebay plan serve`, on a network of its own to the ingress routers
//! ```
//!
//! Each is a namespace `fb-ID-NAME`. Routers run BIRD with OSPF; ingress routers (west, north,
//! east) have a GoBGP speaker for each session, and `forebay plan paths`.
//!
//! The network is described by the planner's own files (`files`): routers, links and capacities,
//! providers with their sessions, prefixes. `blueprint` derives namespaces, wires, addresses and
//! routes, and `build` creates them. `daemons` starts the BGP speakers, `tables` reads the routes
//! that the providers chose, and `meter` counts traffic at the ISP's routers. `service` talks to
//! the planner's service in the roles of the operator and the providers; the service plans and
//! announces. `igp` starts OSPF, `segments` and `ingress` are for paths inside the network, and
//! `queues` reads what waits in front of its links. `story` is the sequence: congest one entry,
//! measure, hint, measure, carry out paths inside, measure, withdraw. `story::isps` is that of two
//! ISPs and five providers, each of which follows hints through a GoBGP of its own (`client`).

#![forbid(unsafe_code)]

mod blueprint;
mod build;
mod client;
mod daemons;
mod files;
mod http;
mod igp;
mod ingress;
mod meter;
mod picture;
mod queues;
mod record;
mod segments;
mod service;
mod story;
mod tables;
mod text;
mod traffic;

pub use record::{
    Check, Inside, LinkUse, Record, Round, SCHEMA, SCHEMA_OF_SEVERAL, Sample, Several, Tables,
    Throughput,
};
pub use story::{Options, tell, tell_of_two};
