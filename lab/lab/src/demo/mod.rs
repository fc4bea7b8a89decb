//! The demonstration: the same traffic in four arms, and the comparison of the results.
//!
//! Its scenario is the first of the Bundler evaluation (EuroSys '21, section 7.2). The results are
//! a JSON document (`docs/demo-json.md`), a table for the terminal, and one HTML page.

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
