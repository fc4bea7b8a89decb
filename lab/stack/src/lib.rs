//! Measures what many long-lived TCP connections cost the network stack of a machine.
//!
//! The study is that of chapter 5 of Zhao's thesis (PAM 2021, arXiv 2104.13774) as a tool: a
//! [`load`] generator with few threads, [`probe`]s of the kernel's counters, a [`study`] that
//! varies flows, queues, congestion control, loss, pacing and offloads, and [`findings`] that are
//! computed from the measured points. [`Study::run`](study::Study::run) is where to start.

#![forbid(unsafe_code)]

pub mod check;
pub mod client;
pub mod distribution;
pub mod findings;
pub mod journal;
pub mod load;
pub mod measure;
pub mod point;
pub mod probe;
pub mod report;
pub mod server;
pub mod study;
pub mod sysctl;
mod topology;

pub use forebay_guest::{Error, Interrupt};
