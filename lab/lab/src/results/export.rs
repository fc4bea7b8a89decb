//! Runs in formats of other tools: flent's and CSV.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{Run, intervals};
use crate::analysis::{Quantiles, Waits, rounded};

/// A format to write runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A file that flent opens (`.flent.gz`), as a result of its test `tcp_nup`.
    Flent,
    /// Comma-separated values, one measured value a line.
    Csv,
}

/// Writes `run` to a file beside `records`, the file of its records, and returns its path.
///
/// # Errors
///
/// If the file cannot be written.
pub fn export(records: &Path, run: &Run, format: Format) -> io::Result<PathBuf> {
    let path = records.with_extension(match format {
        Format::Flent => "flent.gz",
        Format::Csv => "csv",
    });
    let mut out = BufWriter::new(File::create(&path)?);
    match format {
        Format::Flent => flent(&mut out, run)?,
        Format::Csv => csv(&mut out, run)?,
    }
    out.flush()?;
    Ok(path)
}

/// The start of a run in seconds since 1970. Runs have no date, so that equal runs have equal
/// files: 1 January 2000.
const EPOCH: f64 = 946_684_800.0;
/// The same in the form of flent's files.
const EPOCH_TEXT: &str = "2000-01-01T00:00:00.000000Z";

/// The step of flent's results in seconds: the interval in which receivers report.
const STEP: f64 = 0.1;

/// The same in nanoseconds.
const STEP_NANOS: u64 = 100_000_000;

/// The series of round trips in flent's tests.
const PING: &str = "Ping (ms) ICMP";

/// Writes a file of flent, format version 4, as a result of its test `tcp_nup`: a series for each
/// flow, their sum and mean, and round trips.
fn flent(out: &mut dyn Write, run: &Run) -> io::Result<()> {
    let steps = (run.duration().as_secs_f64() / STEP).round() as usize;
    let mut flows: BTreeMap<(&str, u32), Vec<f64>> = BTreeMap::new();
    for read in run.progress.iter().filter(|p| run.start.0 < p.time && p.time <= run.end.0) {
        let series = flows.entry((&read.traffic, read.flow)).or_insert_with(|| vec![0.0; steps]);
        // A report that ends at a border belongs before it.
        let step = ((read.time - 1 - run.start.0) / STEP_NANOS) as usize;
        if let Some(mbps) = series.get_mut(step) {
            *mbps += read.bytes as f64 * 8.0 / 1e6 / STEP;
        }
    }
    let (trips, note) = round_trips(run, steps);
    let mut results = BTreeMap::from([(PING.to_owned(), trips)]);
    let mut meta = BTreeMap::from([(PING.to_owned(), json!({ "UNITS": "ms" }))]);
    for (number, ((traffic, flow), mbps)) in (1..).zip(&flows) {
        let name = format!("TCP upload::{number}");
        let about = json!({ "UNITS": "Mbits/s", "FOREBAY_TRAFFIC": traffic, "FOREBAY_FLOW": flow });
        meta.insert(name.clone(), about);
        results.insert(name, mbps.iter().map(|v| Some(*v)).collect());
    }
    let count = flows.len().max(1) as f64;
    let sums: Vec<f64> = (0..steps).map(|i| flows.values().map(|f| f[i]).sum()).collect();
    for (name, share) in [("TCP upload sum", 1.0), ("TCP upload avg", 1.0 / count)] {
        meta.insert(name.to_owned(), json!({ "UNITS": "Mbits/s" }));
        results.insert(name.to_owned(), sums.iter().map(|v| Some(v * share)).collect());
    }
    let at = |step: usize| rounded(step as f64 * STEP, 3);
    let raw: BTreeMap<&String, Vec<Value>> = results
        .iter()
        .filter(|(name, _)| !name.ends_with(" sum") && !name.ends_with(" avg"))
        .map(|(name, values)| {
            let value = |(i, v): (usize, &Option<f64>)| {
                let t = EPOCH + at(i) + STEP;
                let is_rate = name != PING;
                v.map(|val| match is_rate {
                    true => json!({ "t": t, "val": val, "dur": STEP }),
                    false => json!({ "t": EPOCH + at(i), "val": val }),
                })
            };
            (name, values.iter().enumerate().filter_map(value).collect())
        })
        .collect();
    let file = json!({
        "version": 4,
        "metadata": {
            "NAME": "tcp_nup",
            "TITLE": title(run),
            "NOTE": note,
            "TIME": EPOCH_TEXT, "T0": EPOCH_TEXT,
            "LENGTH": run.duration().as_secs_f64(), "TOTAL_LENGTH": run.duration().as_secs_f64(),
            "STEP_SIZE": STEP,
            "HOST": "forebay", "HOSTS": ["forebay"], "LOCAL_HOST": "forebay",
            "TEST_PARAMETERS": { "upload_streams": flows.len().to_string() },
            "DATA_FILENAME": null, "IP_VERSION": 4, "FLENT_VERSION": null,
            "BATCH_NAME": null, "BATCH_TIME": null, "BATCH_TITLE": null, "BATCH_UUID": null,
            "SERIES_META": meta,
        },
        "x_values": (0..steps).map(at).collect::<Vec<_>>(),
        "results": results,
        "raw_values": raw,
    });
    let mut gzip = GzEncoder::new(out, Compression::default());
    serde_json::to_writer(&mut gzip, &file)?;
    gzip.finish().map(drop)
}

/// The arm with its cell and seed.
fn title(run: &Run) -> String {
    let labels: String =
        run.labels.iter().map(|(name, value)| format!(", {name} {value}")).collect();
    format!("{}, seed {}{labels}", run.arm, run.seed)
}

/// The round trips in milliseconds by step, and a sentence on where they come from: closed loops
/// if there are any, else the empty path and the median waits in both queues.
fn round_trips(run: &Run, steps: usize) -> (Vec<Option<f64>>, &'static str) {
    let mut sums = vec![(0.0, 0_u32); steps];
    for trip in &run.round_trips {
        let (Some(since), Some(end)) = (trip.start.checked_sub(run.start.0), trip.end) else {
            continue;
        };
        if let Some((sum, n)) = sums.get_mut((since / STEP_NANOS) as usize) {
            *sum += end.saturating_sub(trip.start) as f64 / 1e6;
            *n += 1;
        }
    }
    if sums.iter().any(|(_, n)| *n > 0) {
        let mean = |(sum, n): (f64, u32)| (n > 0).then(|| sum / f64::from(n));
        return (sums.into_iter().map(mean).collect(), "Round trips are means of closed loops.");
    }
    let (waits, _) = Waits::of(run);
    let spans = [&waits.bottleneck.all, &waits.sendbox.all];
    let at = |step: usize| {
        let medians = spans.map(|s| {
            let index = (step as f64 * STEP / s.width.as_secs_f64().max(1e-9)) as usize;
            s.spans.get(index).copied().flatten().map(|q: Quantiles| q.p50)
        });
        let waited: f64 = medians.iter().flatten().sum();
        medians.iter().any(Option::is_some).then(|| run.base_rtt.as_millis_f64() + waited)
    };
    let note =
        "No ping ran: round trips are the empty path's with the median waits in both queues.";
    ((0..steps).map(at).collect(), note)
}

/// Writes one measured value a line: payload, round trips, requests, and the queues every 10 ms.
fn csv(out: &mut dyn Write, run: &Run) -> io::Result<()> {
    let since = |time: u64| (time as f64 - run.start.0 as f64) / 1e9;
    writeln!(out, "time_s,kind,name,flow,value,unit")?;
    let mut line = |time: u64, kind: &str, name: &str, flow: u64, value: f64, unit: &str| {
        writeln!(out, "{:.6},{kind},{},{flow},{value},{unit}", since(time), quoted(name))
    };
    for p in &run.progress {
        line(p.time, "payload", &p.traffic, p.flow.into(), p.bytes as f64, "bytes")?;
    }
    for t in &run.round_trips {
        let ms = t.end.map_or(f64::NAN, |end| end.saturating_sub(t.start) as f64 / 1e6);
        line(t.start, "round_trip", &t.traffic, t.flow.into(), ms, "ms")?;
    }
    for r in &run.requests {
        let ms = r.end.map_or(f64::NAN, |end| end.saturating_sub(r.start) as f64 / 1e6);
        line(r.start, "request_size", "requests", r.connection.into(), r.size as f64, "bytes")?;
        line(r.start, "request_time", "requests", r.connection.into(), ms, "ms")?;
    }
    for i in intervals(run) {
        line(i.time, "backlog", &i.hop, 0, i.backlog as f64, "bytes")?;
        if let Some(delay) = i.delay {
            line(i.time, "wait", &i.hop, 0, delay as f64 / 1e6, "ms")?;
        }
    }
    Ok(())
}

/// A field of CSV, in quotes if it must be (RFC 4180, section 2).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Nanos, Rate};

    use super::*;
    use crate::analysis::Analysis;
    use crate::results::{Progress, Request, RoundTrip, external};
    use forebay_records::packet_log::Record;

    /// Two seconds after a warm-up of one: 10 Mbit/s, and a round trip of 30 ms each 100 ms.
    fn run() -> Run {
        let ms = |ms| Nanos::from_millis(ms).0;
        let read = |n: u64| Progress {
            traffic: "bulk, \"1\"".into(),
            flow: 0,
            time: ms(1_100 + n * 100),
            bytes: 125_000,
        };
        let trip = |n: u64| RoundTrip {
            traffic: "rr".into(),
            flow: 0,
            start: ms(1_000 + n * 100),
            end: Some(ms(1_030 + n * 100)),
        };
        Run {
            arm: "box".into(),
            seed: 3,
            start: Nanos::from_secs(1),
            end: Nanos::from_secs(3),
            rate: Rate::from_mbps(12),
            base_rtt: Nanos::from_millis(20),
            progress: (0..20).map(read).collect(),
            round_trips: (0..20).map(trip).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn a_file_of_flent_is_read_back() {
        let dir = std::env::temp_dir().join(format!("fb-export-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = export(&dir.join("run.jsonl"), &run(), Format::Flent).unwrap();
        assert!(path.ends_with("run.flent.gz"), "{}", path.display());
        let again = external::load(&path).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let summary = Analysis::of(&again[0]).summary;
        assert_eq!(summary.arm, "box, seed 3");
        assert!((summary.goodput_mbps - 10.0).abs() < 0.01, "{}", summary.goodput_mbps);
        let trips = summary.round_trips_ms[PING];
        assert_eq!((trips.count, trips.p50), (20, Some(30.0)));
    }

    #[test]
    fn without_closed_loops_round_trips_come_from_the_queues() {
        let packet = |n: u64| Record {
            time: Nanos::from_millis(1_000 + n),
            sojourn: Nanos::from_millis(7),
            len: Bytes(1514),
            ..Record::of_flags(0)
        };
        let bottleneck = (0..1_000).map(packet).collect();
        let run = Run { round_trips: vec![], bottleneck, ..run() };
        let (trips, note) = round_trips(&run, 20);
        assert!(note.starts_with("No ping"));
        assert_eq!((trips[0], trips[9], trips[15]), (Some(27.0), Some(27.0), None));
    }

    #[test]
    fn csv_by_hand() {
        let one = |time| Nanos::from_millis(time).0;
        let run = Run {
            progress: run().progress[..1].to_vec(),
            round_trips: vec![],
            requests: vec![Request {
                id: 0,
                connection: 4,
                size: 99,
                start: one(1_500),
                end: Some(one(1_525)),
            }],
            end: Nanos::from_millis(1_010),
            ..run()
        };
        let mut out = Vec::new();
        csv(&mut out, &run).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "time_s,kind,name,flow,value,unit\n\
             0.100000,payload,\"bulk, \"\"1\"\"\",0,125000,bytes\n\
             0.500000,request_size,requests,4,99,bytes\n\
             0.500000,request_time,requests,4,25,ms\n\
             0.010000,backlog,link,0,0,bytes\n"
        );
    }
}
