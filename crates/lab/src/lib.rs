//! The laboratory: one scenario file describes topology, traffic, arms and measures; an engine runs
//! it; analysis and reports read what the engine recorded.

pub mod analysis;
pub mod bench;
pub mod compare;
pub mod demo;
pub mod engine;
pub mod link;
pub mod netns;
pub mod report;
pub mod results;
pub mod runner;
pub mod scenario;
pub mod sim_engine;
pub mod traffic;
pub mod uml;
pub mod workload;
