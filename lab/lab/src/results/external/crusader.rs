//! Results of crusader: files of `crusader export`, and its own ones ([`super::crr`]).

use serde::Deserialize;

use super::Builder;
use crate::results::Run;

#[derive(Debug, Deserialize)]
pub(super) struct Crusader {
    stream_groups: Vec<Group>,
    pings: Vec<Ping>,
}

/// The streams of a part of the test: a download, an upload, or one of both at the same time.
#[derive(Debug, Deserialize)]
struct Group {
    download: bool,
    both: bool,
    streams: Vec<Stream>,
}

#[derive(Debug, Deserialize)]
struct Stream {
    data: Vec<Point>,
}

/// The bytes since the stream's start.
#[derive(Debug, Deserialize)]
struct Point {
    time: Time,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Ping {
    sent: Time,
    latency: Option<Latency>,
}

#[derive(Debug, Deserialize)]
struct Latency {
    total: Option<Time>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Time {
    secs: u64,
    nanos: u32,
}

impl Time {
    fn seconds(self) -> f64 {
        self.secs as f64 + f64::from(self.nanos) / 1e9
    }
}

/// The runs of a result: one for each kind of load, or one without load.
pub(super) fn runs(file: &Crusader, name: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for what in ["download", "upload", "both ways"] {
        let belongs = |group: &&Group| match (group.both, group.download) {
            (true, _) => what == "both ways",
            (false, true) => what == "download",
            (false, false) => what == "upload",
        };
        let mut run = Builder::new(&format!("{name}, {what}"), "crusader");
        let mut groups = file.stream_groups.iter().filter(belongs).peekable();
        if groups.peek().is_none() {
            continue;
        }
        for group in groups {
            let traffic = if group.download { "download" } else { "upload" };
            for (flow, stream) in (0..).zip(&group.streams) {
                for pair in stream.data.windows(2) {
                    let [from, to] = pair else { continue };
                    let span = (from.time.seconds(), to.time.seconds());
                    run.payload(traffic, flow, span, to.bytes.saturating_sub(from.bytes) as f64);
                }
            }
        }
        add_pings(&mut run, &file.pings);
        runs.push(run.finish());
    }
    if runs.is_empty() {
        let mut run = Builder::new(name, "crusader");
        add_pings(&mut run, &file.pings);
        runs.push(run.finish());
    }
    runs
}

fn add_pings(run: &mut Builder, pings: &[Ping]) {
    for ping in pings {
        let total = ping.latency.as_ref().and_then(|l| l.total).map(Time::seconds);
        run.round_trip("ping", 0, ping.sent.seconds(), total);
    }
}
