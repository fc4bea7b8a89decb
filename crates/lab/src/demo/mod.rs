//! The demonstration: the same traffic, four times, and what became of it.
//!
//! Its scenario is the Bundler evaluation's first (EuroSys '21, section 7.2). Results are a JSON
//! document for machines (`docs/demo-json.md`), a table for the terminal, and one HTML page.

mod arm;
mod document;
mod page;
mod setup;
mod summary;
mod table;
mod verdict;

pub use arm::Arm;
pub use document::{ArmFigures, Arms, Document, Drops, Percentiles, RequestCounts, SCHEMA};
pub use setup::{Setup, setup};
pub use summary::{Demo, DemoError, Setting};
pub use verdict::{Ratios, Verdict};
