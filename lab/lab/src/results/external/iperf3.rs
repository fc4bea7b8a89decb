//! Output of `iperf3 --json`.

use serde::Deserialize;
use serde_json::Value;

use super::{Builder, parsed};
use crate::results::Run;

#[derive(Deserialize)]
struct Iperf3 {
    #[serde(default)]
    error: Option<String>,
    start: Start,
    intervals: Vec<Interval>,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    test_start: Option<TestStart>,
}

#[derive(Deserialize)]
struct TestStart {
    protocol: String,
}

#[derive(Deserialize)]
struct Interval {
    streams: Vec<Stream>,
}

/// What a stream moved in an interval, in seconds and bytes; the sender's round-trip time in
/// microseconds, as the kernel estimates it.
#[derive(Deserialize)]
struct Stream {
    socket: i64,
    start: f64,
    end: f64,
    bytes: f64,
    #[serde(default)]
    rtt: Option<f64>,
    #[serde(default)]
    omitted: bool,
    #[serde(default)]
    sender: Option<bool>,
}

pub(super) fn runs(value: Value, name: &str) -> Result<Vec<Run>, String> {
    let file: Iperf3 = parsed(value, "iperf3")?;
    if let Some(error) = file.error {
        return Err(format!("iperf3 failed: {error}"));
    }
    let protocol = file.start.test_start.map_or_else(|| "?".to_owned(), |t| t.protocol);
    let mut run = Builder::new(name, &format!("iperf3 {protocol}"));
    let mut sockets = Vec::new();
    for stream in file.intervals.iter().flat_map(|i| &i.streams).filter(|s| !s.omitted) {
        let flow = sockets.iter().position(|s| *s == stream.socket).unwrap_or_else(|| {
            sockets.push(stream.socket);
            sockets.len() - 1
        });
        let flow = flow as u32;
        let traffic = if stream.sender == Some(false) { "received" } else { "sent" };
        run.payload(traffic, flow, (stream.start, stream.end), stream.bytes);
        if let Some(rtt) = stream.rtt.filter(|rtt| *rtt > 0.0) {
            run.round_trip("the kernel's estimate", flow, stream.start, Some(rtt / 1e6));
        }
    }
    Ok(vec![run.finish()])
}
