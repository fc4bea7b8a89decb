//! Results of other tools as [`Run`]s: flent, iperf3, irtt and crusader.
//!
//! Only what these tools measure is there: payload over time and round trips. Then goodput, round
//! trips and their pictures have the same meaning as for runs of the laboratory. A run's label
//! `tool` names its origin. Rate and round-trip time of the path are zero: no tool knows them.

mod crr;
mod crusader;
mod flent;
mod iperf3;
mod irtt;

use std::io;
use std::path::Path;

use forebay_input::{Contents, Undecoded};
use forebay_units::Nanos;
use serde_json::Value;

use super::store::StoreError;
use super::{Progress, RoundTrip, Run};

/// The name of the label that says which tool measured a run.
pub const TOOL: &str = "tool";

/// The largest file, also after decompression.
const MAX_FILE: u64 = 64 << 20;

/// Loads the results in the file at `path`: JSON of one of the tools, or crusader's own format,
/// also compressed. A file may have several runs, such as a download and an upload.
///
/// # Errors
///
/// If the file cannot be read, is too large, or has no known format.
pub fn load(path: &Path) -> Result<Vec<Run>, StoreError> {
    parse(path, &read(path)?)
}

/// Reads the results in `bytes`, the uncompressed content of the file at `path`, like [`load`].
///
/// # Errors
///
/// If the content has no known format.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Run>, StoreError> {
    let fault = |line: usize, problem: String| StoreError::Foreign {
        path: path.to_owned(),
        line: line as u64,
        problem,
    };
    if crr::is_crr(bytes) {
        let fault = |crr::Fault { at, problem }| StoreError::Byte {
            path: path.to_owned(),
            byte: at,
            problem,
        };
        let result = crr::read(bytes).map_err(fault)?;
        return measured(crusader::runs(&result, &name(path)))
            .ok_or_else(|| fault(crr::Fault { at: 0, problem: NOTHING.to_owned() }));
    }
    let text = forebay_input::decode(bytes.to_vec())
        .map_err(|Undecoded { line, what }| fault(line.unwrap_or(1), what))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|e| fault(e.line(), format!("not JSON of a known tool: {e}")))?;
    let name = name(path);
    let has = |key| value.get(key).is_some();
    let runs = if has("x_values") && has("results") {
        flent::runs(value, &name)
    } else if has("intervals") && has("start") {
        iperf3::runs(value, &name)
    } else if has("round_trips") && has("stats") {
        irtt::runs(value, &name)
    } else if has("stream_groups") && has("pings") {
        parsed(value, "crusader").map(|file| crusader::runs(&file, &name))
    } else {
        Err("not a result of flent, iperf3 (--json), irtt (-o) or crusader".into())
    };
    let runs = runs.map_err(|problem| fault(1, problem))?;
    measured(runs).ok_or_else(|| fault(1, NOTHING.to_owned()))
}

/// The problem of a file without measurements.
const NOTHING: &str = "the test measured nothing";

/// Returns `runs` if any of them measured something.
fn measured(runs: Vec<Run>) -> Option<Vec<Run>> {
    let is_empty = |run: &Run| run.progress.is_empty() && run.round_trips.is_empty();
    (!runs.iter().all(is_empty)).then_some(runs)
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    let fault = |problem: String| StoreError::Io {
        path: path.to_owned(),
        source: io::Error::other(problem),
    };
    let Contents { octets, is_cut } =
        forebay_input::read(path, MAX_FILE).map_err(|e| fault(e.message))?;
    match is_cut {
        false => Ok(octets),
        true => Err(fault("the compressed file ends early: copy it again".to_owned())),
    }
}

/// The name of the file without its extensions.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let packed = [".gz", ".bz2", ".zst"].iter().find_map(|end| name.strip_suffix(end));
    let plain = packed.unwrap_or(&name);
    let ends = [".flent", ".json", ".crr"];
    ends.iter().find_map(|end| plain.strip_suffix(end)).unwrap_or(plain).to_owned()
}

/// Deserializes what a tool wrote, or says what is wrong.
fn parsed<T: serde::de::DeserializeOwned>(value: Value, tool: &str) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| format!("not a result of {tool}: {e}"))
}

/// A run in the making.
struct Builder(Run);

impl Builder {
    fn new(arm: &str, tool: &str) -> Self {
        let labels = [(TOOL.to_owned(), tool.to_owned())].into();
        Self(Run { arm: arm.to_owned(), labels, ..Run::default() })
    }

    /// Adds the payload of the interval from `begin` to `end`, in seconds.
    fn payload(&mut self, traffic: &str, flow: u32, (begin, end): (f64, f64), bytes: f64) {
        let is_sound = |v: f64| v.is_finite() && v >= 0.0;
        if !(is_sound(begin) && is_sound(end) && is_sound(bytes)) {
            return;
        }
        let (begin, end) = (nanos(begin), nanos(end));
        let first = self.0.progress.is_empty();
        self.0.start = if first { begin } else { self.0.start.min(begin) };
        self.0.end = self.0.end.max(end);
        let traffic = traffic.to_owned();
        self.0.progress.push(Progress { traffic, flow, time: end.0, bytes: bytes as u64 });
    }

    /// Adds a round trip of `length` seconds that began at `start`; `None` if it was lost.
    fn round_trip(&mut self, traffic: &str, flow: u32, start: f64, length: Option<f64>) {
        if !start.is_finite() || length.is_some_and(|l| !l.is_finite() || l < 0.0) {
            return;
        }
        let start = nanos(start);
        let end = length.map(|l| start.saturating_add(nanos(l)).0);
        let traffic = traffic.to_owned();
        self.0.round_trips.push(RoundTrip { traffic, flow, start: start.0, end });
    }

    /// The run. Its measured interval is the one with payload, if there is any: the round trips
    /// then are those under load.
    fn finish(mut self) -> Run {
        if self.0.progress.is_empty() {
            let starts = || self.0.round_trips.iter().map(|t| t.start);
            self.0.start = Nanos(starts().min().unwrap_or(0));
            self.0.end = Nanos(starts().max().unwrap_or(0).saturating_add(1));
        }
        self.0
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds.max(0.0))
}

#[cfg(test)]
mod tests;
