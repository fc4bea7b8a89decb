//! placeholder
mod config;
pub mod cores;
mod engine;
mod flow;
mod queues;
mod ranking;
mod sizing;
mod transport;

pub use config::{Config, Settings};
pub use engine::{Departure, Engine, Memory, Polled};
pub use flow::FlowId;
pub use ranking::{Account, Fair, MAX_WEIGHT, Policy, Ranking, ShortestFirst};
pub use sizing::{Load, Sample, Sizing};
pub use transport::{Answer, Ask, Hint, Next, Transport};
