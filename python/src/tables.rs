//! The tables of runs. Names of columns have their units, as those of a run's summary do; times
//! count from the start of the run.

use forebay_lab::analysis::slowdown;
use forebay_lab::results::{Interval, Run, intervals};
use forebay_units::{Nanos, Rate};

use arrow_schema::ArrowError;
use forebay_records::packet_log::{Fate, Record};

use crate::columns::Columns;
use crate::table::Batches;

/// What a table's columns are made of: a run, and the names of its traffics.
pub(crate) struct Source<'a> {
    run: &'a Run,
    traffics: &'a [String],
}

type Make = fn(&Source<'_>, &mut Columns) -> Result<(), ArrowError>;

/// Returns the function that makes the columns of a table.
pub(crate) fn by_name(name: &str) -> Option<Make> {
    Some(match name {
        "requests" => requests,
        "flows" => flows,
        "senders" => senders,
        "round_trips" => round_trips,
        "queues" => queues,
        "ticks" => ticks,
        "events" => events,
        "packets" => packets,
        "hops" => hops,
        _ => return None,
    })
}

/// Whether a run with `records = "figures"` has this table.
pub(crate) fn of_figures(name: &str) -> bool {
    matches!(name, "requests" | "events" | "hops")
}

/// Makes one table of all runs. Its first columns are the arm and the index of the cell.
pub(crate) fn of(
    runs: &[Run],
    cells: &[u32],
    traffics: &[Vec<String>],
    make: Make,
) -> Result<Batches, ArrowError> {
    let mut arms: Vec<String> = Vec::new();
    for run in runs {
        if !arms.contains(&run.arm) {
            arms.push(run.arm.clone());
        }
    }
    let mut batches = Vec::new();
    for ((run, cell), traffics) in runs.iter().zip(cells).zip(traffics) {
        let mut own = Columns::default();
        make(&Source { run, traffics }, &mut own)?;
        let rows = own.rows();
        let mut all = Columns::default();
        let arm = arms.iter().position(|arm| *arm == run.arm);
        all.word("arm", &arms, std::iter::repeat_n(arm, rows))?;
        all.count("cell", std::iter::repeat_n(Some(u64::from(*cell)), rows));
        batches.push(all.followed_by(own).batch()?);
    }
    let schema = batches.first().map(arrow_array::RecordBatch::schema);
    let schema = schema.ok_or_else(|| ArrowError::InvalidArgumentError("no runs".to_owned()))?;
    Ok(Batches { schema, batches })
}

fn seconds(ns: u64) -> f64 {
    Nanos(ns).as_secs_f64()
}

fn ms(ns: u64) -> f64 {
    Nanos(ns).as_millis_f64()
}

fn mbps(bps: u64) -> f64 {
    Rate::from_bps(bps).as_mbps_f64()
}

/// The distinct words of `values`, in the order of their first occurrence.
fn words<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for value in values {
        // Neighbours are often equal, and there are few different words.
        if words.last() != Some(value) && !words.contains(value) {
            words.push(value.clone());
        }
    }
    words
}

/// Adds a column of words.
fn word<'a>(
    columns: &mut Columns,
    name: &str,
    values: impl Iterator<Item = &'a String> + Clone,
) -> Result<(), ArrowError> {
    let words = words(values.clone());
    let index = |value: &String| words.iter().position(|word| word == value);
    columns.word(name, &words, values.map(index))
}

fn requests(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let (run, all) = (source.run, &source.run.requests);
    columns.count("id", all.iter().map(|r| Some(r.id)));
    columns.count("connection", all.iter().map(|r| Some(u64::from(r.connection))));
    columns.count("size_bytes", all.iter().map(|r| Some(r.size)));
    columns.float("start_s", all.iter().map(|r| Some(seconds(r.start))));
    columns.float("end_s", all.iter().map(|r| r.end.map(seconds)));
    columns.float("slowdown", all.iter().map(|r| Some(slowdown(run, r))));
    let measured = run.start.0..run.end.0;
    columns.truth("measured", all.iter().map(|r| measured.contains(&r.start)));
    Ok(())
}

fn flows(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all = &source.run.progress;
    word(columns, "traffic", all.iter().map(|p| &p.traffic))?;
    columns.count("flow", all.iter().map(|p| Some(u64::from(p.flow))));
    columns.float("time_s", all.iter().map(|p| Some(seconds(p.time))));
    columns.count("bytes", all.iter().map(|p| Some(p.bytes)));
    Ok(())
}

fn senders(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all = &source.run.senders;
    columns.word("traffic", source.traffics, all.iter().map(|s| Some(s.traffic)))?;
    columns.count("flow", all.iter().map(|s| Some(u64::from(s.flow))));
    columns.float("time_s", all.iter().map(|s| Some(seconds(s.time))));
    columns.count("window_packets", all.iter().map(|s| Some(u64::from(s.window))));
    columns.count("in_flight_packets", all.iter().map(|s| Some(u64::from(s.in_flight))));
    columns.float("rtt_ms", all.iter().map(|s| s.rtt.map(ms)));
    columns.count("retransmissions", all.iter().map(|s| Some(s.retransmissions)));
    Ok(())
}

fn round_trips(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all = &source.run.round_trips;
    word(columns, "traffic", all.iter().map(|r| &r.traffic))?;
    columns.count("flow", all.iter().map(|r| Some(u64::from(r.flow))));
    columns.float("start_s", all.iter().map(|r| Some(seconds(r.start))));
    columns.float("rtt_ms", all.iter().map(|r| r.end.map(|end| ms(end.saturating_sub(r.start)))));
    Ok(())
}

fn queues(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all: Vec<Interval> = intervals(source.run).collect();
    word(columns, "hop", all.iter().map(|i| &i.hop))?;
    columns.float("time_s", all.iter().map(|i| Some(seconds(i.time))));
    columns.float("rate_mbps", all.iter().map(|i| Some(mbps(i.rate))));
    columns.count("backlog_bytes", all.iter().map(|i| Some(i.backlog)));
    columns.count("backlog_packets", all.iter().map(|i| Some(i.packets)));
    columns.float("delay_ms", all.iter().map(|i| i.delay.map(ms)));
    columns.count("dropped", all.iter().map(|i| Some(i.dropped)));
    Ok(())
}

fn ticks(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all = &source.run.ticks;
    word(columns, "bundle", all.iter().map(|t| &t.bundle))?;
    columns.float("time_s", all.iter().map(|t| Some(seconds(t.time))));
    word(columns, "mode", all.iter().map(|t| &t.mode))?;
    columns.float("rate_mbps", all.iter().map(|t| t.rate.map(mbps)));
    columns.float("rtt_ms", all.iter().map(|t| t.rtt.map(ms)));
    columns.float("min_rtt_ms", all.iter().map(|t| t.min_rtt.map(ms)));
    columns.float("send_rate_mbps", all.iter().map(|t| t.send_rate.map(mbps)));
    columns.float("receive_rate_mbps", all.iter().map(|t| t.receive_rate.map(mbps)));
    columns.float("response", all.iter().map(|t| t.response));
    columns.float("contrast", all.iter().map(|t| t.contrast));
    columns.count("epoch_packets", all.iter().map(|t| Some(u64::from(t.epoch))));
    columns.count("backlog_bytes", all.iter().map(|t| Some(t.backlog)));
    columns.count("accepted", all.iter().map(|t| Some(t.accepted)));
    columns.count("out_of_order", all.iter().map(|t| Some(t.out_of_order)));
    Ok(())
}

fn events(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all = &source.run.events;
    word(columns, "bundle", all.iter().map(|e| &e.bundle))?;
    columns.float("time_s", all.iter().map(|e| Some(seconds(e.time))));
    word(columns, "kind", all.iter().map(|e| &e.kind))?;
    columns.text("text", all.iter().map(|e| e.text.clone()));
    let json = |values| serde_json::to_string(values);
    let values: Result<Vec<_>, _> = all.iter().map(|e| json(&e.values)).collect();
    let values = values.map_err(|e| ArrowError::JsonError(e.to_string()))?;
    columns.text("values_json", values.into_iter());
    Ok(())
}

fn packets(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let Run { bottleneck, sendbox, whose, .. } = source.run;
    let all = || bottleneck.iter().chain(sendbox);
    let hops = ["link".to_owned(), "sendbox".to_owned()];
    let hop = std::iter::repeat_n(Some(0), bottleneck.len())
        .chain(std::iter::repeat_n(Some(1), sendbox.len()));
    columns.word("hop", &hops, hop)?;
    columns.float("time_s", all().map(|r| Some(seconds(r.time.0))));
    columns.float("delay_ms", all().map(|r| Some(ms(r.sojourn.0))));
    columns.count("size_bytes", all().map(|r| Some(r.len.0)));
    let whose = whose.iter().map(|traffic| traffic.map(usize::from));
    let whose = whose.chain(std::iter::repeat(None)).take(bottleneck.len() + sendbox.len());
    columns.word("traffic", source.traffics, whose)?;
    columns.truth("dropped", all().map(|r: &Record| r.fate == Fate::Dropped));
    columns.truth("marked", all().map(|r| r.marked));
    columns.truth("l4s", all().map(|r| r.l4s));
    Ok(())
}

fn hops(source: &Source<'_>, columns: &mut Columns) -> Result<(), ArrowError> {
    let all = &source.run.hops;
    word(columns, "hop", all.iter().map(|h| &h.hop))?;
    columns.count("received", all.iter().map(|h| Some(h.received)));
    columns.count("sent", all.iter().map(|h| Some(h.sent)));
    columns.count("dropped", all.iter().map(|h| Some(h.policy_drops)));
    columns.count("lost", all.iter().map(|h| Some(h.lost)));
    columns.count("marked", all.iter().map(|h| h.marked));
    columns.count("local", all.iter().map(|h| Some(h.local)));
    columns.count("queued", all.iter().map(|h| Some(h.queued)));
    Ok(())
}
