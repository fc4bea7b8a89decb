//! The laboratory: one scenario file describes topology, traffic, arms and measures; an engine runs
//! it; analysis and reports read what the engine recorded.
//!
//! The feature `linux`, on by default, adds the engines that run real Linux. Without it the
//! simulator remains, with scenarios, analysis and reports.

pub mod analysis;
pub mod bench;
pub mod compare;
pub mod demo;
pub mod engine;
#[cfg(feature = "linux")]
pub mod interop;
#[cfg(feature = "linux")]
pub mod link;
#[cfg(feature = "linux")]
pub mod netns;
pub mod report;
pub mod results;
pub mod runner;
pub mod scenario;
pub mod sim_engine;
#[cfg(feature = "linux")]
pub mod traffic;
#[cfg(feature = "linux")]
pub mod uml;
pub mod workload;
