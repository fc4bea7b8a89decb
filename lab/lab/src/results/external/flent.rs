//! Files of flent: JSON with interpolated results and, for each series, its raw values.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Builder, parsed};
use crate::results::Run;

/// A file, format version 4 and older ones with the same fields.
#[derive(Deserialize)]
struct Flent {
    metadata: Metadata,
    #[serde(default)]
    raw_values: BTreeMap<String, Vec<Raw>>,
    x_values: Vec<f64>,
    results: BTreeMap<String, Vec<Option<f64>>>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "NAME", default)]
    name: Option<String>,
    #[serde(rename = "TITLE", default)]
    title: Option<String>,
    #[serde(rename = "SERIES_META", default)]
    series: BTreeMap<String, Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(rename = "UNITS", default)]
    units: Option<String>,
}

/// A raw value: the time in seconds since 1970, and for throughput the length of its interval.
#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    t: Option<f64>,
    #[serde(default)]
    val: Option<f64>,
    #[serde(default)]
    dur: Option<f64>,
}

pub(super) fn runs(value: Value, name: &str) -> Result<Vec<Run>, String> {
    let file: Flent = parsed(value, "flent")?;
    let test = file.metadata.name.as_deref().unwrap_or("test");
    let title = file.metadata.title.filter(|t| !t.is_empty());
    let mut run = Builder::new(title.as_deref().unwrap_or(name), &format!("flent {test}"));
    let raw = || file.raw_values.values().flatten();
    let begin = raw().filter_map(|r| Some(r.t? - r.dur.unwrap_or(0.0))).fold(f64::NAN, f64::min);
    for (series, results) in &file.results {
        let units = file.metadata.series.get(series).and_then(|s| s.units.as_deref());
        let is_trip = match units {
            Some(units) => units == "ms",
            None => series.starts_with("Ping"),
        };
        // Sums and averages of other series have no raw values, and would count twice.
        match file.raw_values.get(series).filter(|raw| !raw.is_empty()) {
            Some(raw) => add_raw(&mut run, series, is_trip, raw, begin),
            None if file.raw_values.is_empty() => {
                add_results(&mut run, series, is_trip, &file.x_values, results);
            }
            None => {}
        }
    }
    Ok(vec![run.finish()])
}

fn add_raw(run: &mut Builder, series: &str, is_trip: bool, raw: &[Raw], begin: f64) {
    let mut last = None;
    for value in raw {
        let (Some(t), Some(val)) = (value.t, value.val) else { continue };
        let at = to_microseconds(t - begin);
        if is_trip {
            run.round_trip(series, 0, at, Some(val / 1e3));
        } else if let Some(from) = value.dur.map(|dur| to_microseconds(at - dur)).or(last) {
            run.payload(series, 0, (from.max(0.0), at), bytes(val, at - from));
        }
        last = Some(at);
    }
}

fn add_results(run: &mut Builder, series: &str, is_trip: bool, x: &[f64], y: &[Option<f64>]) {
    let mut last = None;
    for (at, val) in x.iter().zip(y) {
        if let Some(val) = val {
            match (is_trip, last) {
                (true, _) => run.round_trip(series, 0, *at, Some(val / 1e3)),
                (false, Some(from)) => run.payload(series, 0, (from, *at), bytes(*val, at - from)),
                (false, None) => {}
            }
        }
        last = Some(*at);
    }
}

/// Rounds to what is left of the precision of seconds since 1970, so that times that were equal are
/// so again.
fn to_microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// The bytes of a rate in Mbit/s over some seconds.
fn bytes(mbps: f64, seconds: f64) -> f64 {
    mbps * 1e6 / 8.0 * seconds
}
