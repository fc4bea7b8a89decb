//! Reads the files that a plan is computed from. The readers take a text and the name of its file;
//! every error names file and line, and says what to do.

mod demands;
mod exporters;
mod gml;
mod graphml;
mod gravity;
mod learned;
mod metrics;
mod next_hops;
mod node_link;
mod prefixes;
mod providers;
mod repetita;
mod sndlib;
mod xml;

use std::path::Path;

use forebay_config::ConfigError;
use forebay_input::Kind;
use forebay_units::{Bytes, Rate};

pub use demands::{demands, demands_csv, demands_json};
pub use exporters::{Exporter, Exporters, MAX_EXPORTERS, MAX_INTERFACES, Place, exporters};
pub use gml::gml;
pub use graphml::graphml;
pub use gravity::gravity;
pub use learned::{Learned, learned};
pub use metrics::metrics;
pub use next_hops::next_hops;
pub use node_link::node_link;
pub use prefixes::{Users, prefixes};
pub use providers::{ProviderFile, providers};
pub use repetita::{demands_repetita, repetita};
pub use sndlib::{demands_sndlib, sndlib};

use crate::topology::Topology;
use crate::weights::Range;

/// The largest file of a topology or of demands, in bytes: a few times what the other limits allow.
pub const MAX_FILE: Bytes = Bytes(64_000_000);

/// The most demands in a file.
pub const MAX_DEMANDS: usize = 1_000_000;

/// Reads a topology from `text`. The ending of the file's name gives the format: `.gml`,
/// `.graphml`, `.json`, `.graph` of REPETITA, or `.txt` or `.xml` of SNDlib. It may be followed by
/// that of a compression.
///
/// # Errors
/// If the name has another ending, or the text is not of that format.
pub fn topology(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let text = without_mark(text);
    let Some(end) = forebay_input::extension(file)
        .filter(|end| ["gml", "graphml", "json", "graph", "txt", "xml"].contains(end))
    else {
        return Err(error(
            file,
            None,
            "is not named as a topology: the name should end in .gml, .graphml, .json, .graph, .txt or \
             .xml",
        ));
    };
    if text.trim().is_empty() {
        return Err(error(file, None, "is empty"));
    }
    // XML and JSON are told by their first character, and the other formats begin with a letter.
    let kind = Kind::of(&text.as_bytes()[..text.len().min(512)]);
    let (is_xml, is_json) =
        (text.trim_start().starts_with('<'), text.trim_start().starts_with(['{', '[']));
    let fits = match end {
        "json" => is_json,
        "graphml" | "xml" => is_xml,
        "txt" => !is_json,
        _ => !is_xml && !is_json,
    };
    if !fits {
        let what = match (is_xml, is_json) {
            _ if kind.is_some_and(|kind| kind.what() == "a web page") => "a web page",
            (true, _) => "XML",
            (_, true) => "JSON",
            _ => "text",
        };
        return Err(error(file, Some(1), format!("is {what}, although its name ends in .{end}")));
    }
    match end {
        "gml" => gml(file, text),
        "graphml" => graphml(file, text),
        "json" => node_link(file, text),
        "graph" => repetita(file, text),
        _ => sndlib(file, text),
    }
}

/// Returns what is wrong with a JSON text, without the place.
pub(crate) fn json_message(e: &serde_json::Error) -> String {
    use serde_json::error::Category;

    let text = e.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    match e.classify() {
        Category::Eof => "ends early: is the file complete?".to_owned(),
        Category::Syntax => format!("is no JSON here: {message}"),
        Category::Io | Category::Data => message.to_owned(),
    }
}

/// The words for a link in errors.
fn link_name(from: &str, to: &str) -> String {
    format!("the link from {from} to {to}")
}

/// Checks that the first line of a CSV `text` has the columns of one of `headers`. Returns which
/// one, and the other lines that are not blank, with their numbers.
///
/// # Errors
/// If it has others, or separates them otherwise.
fn csv<'a>(
    file: &Path,
    text: &'a str,
    headers: &[&str],
) -> Result<(usize, impl Iterator<Item = (&'a str, usize)> + use<'a>), ConfigError> {
    let lines = without_mark(text).lines().zip(1..);
    let mut lines = lines.filter(|(line, _)| !line.trim().is_empty());
    let names = headers.join(" or ");
    let Some((first, at)) = lines.next() else {
        return Err(error(file, Some(1), format!("is empty: it should begin with {names}")));
    };
    let columns = |separator: char| {
        let columns = first.split(separator).map(|name| name.trim().trim_matches('"').trim());
        columns.collect::<Vec<_>>().join(",").to_lowercase()
    };
    let known = |separator: char| {
        let found = columns(separator);
        headers.iter().position(|header| **header == found)
    };
    if let Some(which) = known(',') {
        return Ok((which, lines));
    }
    let separator =
        [(';', "semicolons"), ('\t', "tabs")].into_iter().find(|s| known(s.0).is_some());
    let message = match separator {
        Some((_, name)) => format!("has {name} between its columns: write commas"),
        None => format!("the first line should be {names}"),
    };
    Err(error(file, Some(at), message))
}

/// Returns an error of `file`, at `line` from 1.
fn error(file: &Path, line: Option<usize>, message: impl Into<String>) -> ConfigError {
    // Quotes from the file may have line breaks, and an error is one line.
    let message = message.into().replace(['\n', '\r'], " ");
    ConfigError { file: file.to_owned(), line, key: String::new(), message }
}

/// Returns the line, from 1, of the byte at `at` in `text`.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// Returns the line of `part`, which is a slice of `text`.
fn line_within(text: &str, part: &str) -> usize {
    line_of(text, (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize))
}

/// Reads a rate: `10 Gbit/s`, or a number of bits per second.
fn rate(text: &str) -> Result<Rate, String> {
    let with_unit =
        text.parse::<forebay_config::RateValue>().ok().map(|rate| rate.0.as_bps() as f64);
    let number = with_unit.or_else(|| text.trim().parse().ok());
    number.and_then(whole_rate).ok_or_else(|| {
        format!(
            "{text:?} is not a rate below 10^15 bit/s: write bits per second, or a number and a unit, such as \
             \"10 Gbit/s\""
        )
    })
}

/// Returns the text without a byte order mark, which some editors write.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads a truth value: 0 or 1, `true` or `false`; Python writes `True`.
fn truth(text: &str) -> Option<bool> {
    match text.trim() {
        "1" => Some(true),
        "0" => Some(false),
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Returns a metric of OSPF or IS-IS, which may be written as a float.
fn whole_metric(number: f64) -> Option<u32> {
    let valid = (1.0..=f64::from(Range::WIDE.metric)).contains(&number) && number.fract() == 0.0;
    valid.then_some(number as u32)
}

/// Returns the id that a number is, so that `1`, `1.0` and `1e0` are the same.
fn whole_id(word: &str) -> String {
    /// Up to here, floats are whole numbers without gaps.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_float = word.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
    match word.parse::<f64>() {
        Ok(n) if is_float && n.abs() < EXACT && n.fract() == 0.0 => (n as i64).to_string(),
        _ => word.to_owned(),
    }
}

/// What is wrong with a capacity.
const NO_CAPACITY: &str = "a capacity is not a rate: write bits per second, at most 10^15";
/// What is wrong with a metric.
const NO_METRIC: &str = "a metric is invalid: write 1 to 16777214";

/// The highest rate that is accepted, in bits per second. A million of them still fit into a sum.
pub const MAX_RATE: f64 = 1e15;

/// Returns a rate of `bps`, if it is finite, not negative, and below 10^15.
fn whole_rate(bps: f64) -> Option<Rate> {
    (0.0..=MAX_RATE).contains(&bps).then(|| Rate::from_bps_f64(bps.round()))
}

#[cfg(test)]
mod tests;
