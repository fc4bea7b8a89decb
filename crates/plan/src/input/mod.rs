//! Readers of what a plan is made of. They take text, and the name that errors call it by; every error names file
//! and line, and says what to do.

mod demands;
mod exporters;
mod gml;
mod graphml;
mod gravity;
mod node_link;
mod prefixes;
mod providers;

use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::{Bytes, Rate};

pub use demands::{demands_csv, demands_json};
pub use exporters::{Exporter, Exporters, MOST_EXPORTERS, MOST_INTERFACES, Place, exporters};
pub use gml::gml;
pub use graphml::graphml;
pub use gravity::gravity;
pub use node_link::node_link;
pub use prefixes::{Users, prefixes};
pub use providers::{ProviderFile, providers};

use crate::topology::Topology;

/// The largest file of a topology or of demands: a few times what its bounds in routers or lines take.
pub const LARGEST: Bytes = Bytes(64_000_000);

/// The most demands of a file.
pub const MOST_DEMANDS: usize = 1_000_000;

/// The topology in `text`, by what the file's name ends in: `.gml`, `.graphml` or `.json`.
///
/// # Errors
/// If it ends in something else, or is not what its name says.
pub fn topology(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    match file.extension().and_then(|e| e.to_str()) {
        Some("gml") => gml(file, text),
        Some("graphml") => graphml(file, text),
        Some("json") => node_link(file, text),
        _ => Err(error(
            file,
            None,
            "is no topology by its name: it should end in .gml, .graphml or .json",
        )),
    }
}

/// An error of `file`, at `line` from 1.
fn error(file: &Path, line: Option<usize>, message: impl Into<String>) -> ConfigError {
    // What is quoted from the file may have line breaks, and an error is one line.
    let message = message.into().replace(['\n', '\r'], " ");
    ConfigError { file: file.to_owned(), line, key: String::new(), message }
}

/// The line, from 1, that the byte `at` of `text` is on.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// The line of `part`, which lies in `text`.
fn line_within(text: &str, part: &str) -> usize {
    line_of(text, (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize))
}

/// What people write for a rate: `10 Gbit/s`, or a plain number of bits per second.
fn rate(text: &str) -> Result<Rate, String> {
    let with_unit =
        text.parse::<forebay_config::RateValue>().ok().map(|rate| rate.0.as_bps() as f64);
    let number = with_unit.or_else(|| text.trim().parse().ok());
    number.and_then(whole_rate).ok_or_else(|| {
        format!(
            "{text:?} is no rate below 10^15 bit/s: write bits per second, or a number and a unit, such as \
             \"10 Gbit/s\""
        )
    })
}

/// The most that anything in a plan carries or asks for: what numbers up to here add up to, a million of them, still
/// fits where sums are kept.
pub const MOST_RATE: f64 = 1e15;

/// A rate of so many bits per second, if it is one: finite, not negative, and below 10^15.
fn whole_rate(bps: f64) -> Option<Rate> {
    (0.0..=MOST_RATE).contains(&bps).then(|| Rate::from_bps_f64(bps.round()))
}
