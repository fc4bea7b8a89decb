//! `forebay plan flows`: demands from flow records, read from files or received.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_cli::terminal::{note, print_beside, warn};
use forebay_config::ConfigError;
use forebay_input::{Contents, Kind};
use forebay_lab::engine::EngineError;
use forebay_plan::estimate;
use forebay_plan::flows::capture::{self, Capture};
use forebay_plan::flows::collector::Trouble;
use forebay_plan::flows::message;
use forebay_plan::flows::report::{demands, shares};
use forebay_plan::flows::time::Window;
use forebay_plan::flows::{Collector, Grain, Report};
use forebay_plan::input::{self, Exporters, MAX_FILE, Users};
use forebay_plan::network::Provider;
use forebay_plan::topology::Topology;
use forebay_serve::collect;
use ipnet::IpNet;

use super::{Failure, interrupt, topology, write, write_json};
use crate::cli::FlowsArgs;

/// The most octets of files of messages, and of all together; they are read into memory.
const MAX_UNPACKED: u64 = 1 << 30;
/// The default window for received flow records.
const WINDOW: Duration = Duration::from_secs(300);
/// Unreadable parts that are reported one by one; the rest is only counted.
const TOLD: usize = 10;

struct Inputs {
    topology: Topology,
    providers: Vec<Provider>,
    prefixes: BTreeMap<IpNet, Users>,
    exporters: Exporters,
}

pub(super) fn run(args: &FlowsArgs) -> Result<(), Failure> {
    if let Some(out) = args.out.as_ref().filter(|out| !(ends(out, "csv") || ends(out, "json"))) {
        return Err(format!("{}: demands are written as .csv or .json", out.display()).into());
    }
    let inputs = inputs(args)?;
    let grain = if args.shares.is_some() { Grain::Prefix } else { Grain::Router };
    let mut collector = Collector::new(inputs.exporters.clone(), &inputs.prefixes, grain);
    let window = match args.listen.is_empty() {
        true => from_files(args, &mut collector)?,
        false => off_the_network(args, &mut collector)?,
    };
    let report = Report::new(&collector, window, window, &inputs.providers, &inputs.topology);
    print_beside(args.json.as_deref(), &report.to_string())?;
    if let Some(json) = &args.json {
        write_json(json, &report)?;
    }
    if report.demands.is_empty() {
        return Err("no demand was measured: the report says what was left out, and why".into());
    }
    if let Some(out) = &args.out {
        let text = match ends(out, "json") {
            true => super::json(&report.demands)?,
            false => {
                let demands = demands(&collector.demands(window));
                estimate::csv_of(&demands, &inputs.providers, &inputs.topology)
            }
        };
        write(out, &text)?;
    }
    if let Some(out) = &args.shares {
        write(out, &shares(&collector, window, &inputs.prefixes, &inputs.topology))?;
    }
    Ok(())
}

fn ends(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|e| e == end)
}

fn inputs(args: &FlowsArgs) -> Result<Inputs, Failure> {
    let topology = topology(&args.topology)?;
    let text = |path: &Path| forebay_input::text(path, MAX_FILE);
    let providers =
        input::providers(&args.providers, &text(&args.providers)?, &topology)?.providers;
    let prefixes = input::prefixes(&args.prefixes, &text(&args.prefixes)?, &topology)?;
    let exporters =
        input::exporters(&args.exporters, &text(&args.exporters)?, &providers, &topology)?;
    if let Some((exporter, index)) = exporters.shared() {
        let message = format!(
            "interface {index} of {exporter} has no provider: only `forebay plan serve` with \
             [routes] finds it by the sources of flows"
        );
        return Err(wrong(&args.exporters, message).into());
    }
    Ok(Inputs { topology, providers, prefixes, exporters })
}

/// A time span in milliseconds.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Reads all files twice: first for the exporters' sampling rates and the time span, then for the
/// flows.
fn from_files(args: &FlowsArgs, collector: &mut Collector) -> Result<Window, Failure> {
    let (mut all, mut in_all) = (Vec::new(), 0);
    for path in &args.files {
        let Contents { octets, is_cut } = forebay_input::read(path, MAX_UNPACKED)?;
        if is_cut {
            let path = path.display();
            warn(format_args!("{path}: the compressed file ends early: the rest is missing"));
        }
        in_all += octets.len() as u64;
        if in_all > MAX_UNPACKED {
            let message =
                format!("the files have more than {MAX_UNPACKED} octets: give fewer at once");
            return Err(wrong(path, message).into());
        }
        all.push((path.as_path(), octets));
    }
    let (mut unread, mut seen) = (None, None);
    for (path, file) in &all {
        let found = messages(args, path, file, collector, &mut |trouble| {
            unread.get_or_insert_with(|| {
                wrong(path, format!("at octet {}: {}", trouble.at, trouble.what))
            });
        })?;
        if let Some(found) = found {
            let seen: &mut Seen = seen.get_or_insert_default();
            seen.datagrams += found.datagrams;
            seen.records += found.records;
        }
    }
    // What cannot be read may be the reason.
    let failure = |message: String| -> Failure {
        match unread {
            Some(first) => {
                let message = format!("{}; {message}", first.message);
                ConfigError { message, ..first }.into()
            }
            None => message.into(),
        }
    };
    let Some(there) = collector.exported() else {
        let mut text = "the files have no message from an exporter of the table".to_owned();
        if let Some(Seen { datagrams, records: 0 }) = seen {
            text = format!("the captures have {datagrams} UDP datagrams, and none of flow records");
        }
        if let Some(stranger) = collector.strangers().next() {
            text += &format!(", but of {stranger}: is it one?");
        }
        return Err(failure(text));
    };
    let delay = Duration::from_nanos(args.delay.0.0);
    let end = args.end.unwrap_or(there.end - millis(delay));
    let begin = match &args.window {
        Some(window) => end - millis(Duration::from_nanos(window.0.0)),
        None => there.begin,
    };
    if begin >= end {
        let seconds = (there.end - there.begin) / 1000;
        return Err(failure(format!(
            "the window is empty: the messages cover {seconds} s, and --delay cuts off {} s of that",
            delay.as_secs_f64()
        )));
    }
    collector.begin(begin, end - begin, 1);
    let mut troubles = 0;
    for (path, file) in &all {
        messages(args, path, file, collector, &mut |trouble| {
            troubles += 1;
            if troubles <= TOLD {
                warn(format_args!("{}: at octet {}: {}", path.display(), trouble.at, trouble.what));
            }
        })?;
    }
    if troubles > TOLD {
        warn(format_args!("{} more parts cannot be read", troubles - TOLD));
    }
    Ok(Window { begin, end })
}

fn wrong(path: &Path, message: String) -> ConfigError {
    ConfigError { file: path.to_owned(), line: None, key: String::new(), message }
}

/// Says what a file is that has no messages of flow records.
fn not_of_flows(kind: Kind) -> String {
    const GIVE: &str = "give a capture, or IPFIX, NetFlow v9 or v5 as exporters send it";
    match kind.what() {
        _ if kind.has_advice() => kind.to_string(),
        "JSON" | "text" => {
            format!("is {}: {GIVE}, or what goflow2 writes with `-format bin`", kind.what())
        }
        what => format!("is {what}: {GIVE}"),
    }
}

/// What a capture has.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Number of UDP datagrams.
    datagrams: u64,
    /// Those of them with flow records.
    records: u64,
}

/// Passes all messages of a file to the collector. Returns what a capture has.
fn messages(
    args: &FlowsArgs,
    path: &Path,
    file: &[u8],
    collector: &mut Collector,
    trouble: &mut dyn FnMut(Trouble),
) -> Result<Option<Seen>, Failure> {
    if let Some(relay) = args.relay {
        collector.relayed_file(relay, file, trouble);
        return Ok(None);
    }
    if capture::is_capture(file) {
        let mut seen = Seen::default();
        let mut capture = Capture::new(file).map_err(|e| wrong(path, e.to_string()))?;
        while let Some(datagram) =
            capture.next_datagram().map_err(|e| wrong(path, e.to_string()))?
        {
            seen.datagrams += 1;
            // A capture may contain other traffic.
            if message::is_known(datagram.octets) {
                seen.records += 1;
                collector.datagram(datagram.from, datagram.octets, datagram.at, &mut |t| {
                    trouble(Trouble { at: datagram.place + t.at, what: t.what });
                });
            }
        }
        for (count, what) in [
            (capture.left_out.fragments, "fragments of datagrams are left out"),
            (capture.left_out.short, "packets are cut in their headers: capture with `-s 0`"),
        ] {
            if count > 0 {
                trouble(Trouble { at: 0, what: format!("{count} {what}") });
            }
        }
        if let Some(at) = capture.cut {
            let left = file.len() - at;
            let what =
                format!("the file ends within a packet: its last {left} octets are left out");
            trouble(Trouble { at, what });
        }
        return Ok(Some(seen));
    }
    // Messages of flow records are no text, and have no other marks.
    if let Some(kind) = Kind::of(&file[..file.len().min(512)]) {
        return Err(wrong(path, not_of_flows(kind)).into());
    }
    let from = exporter(args, path, collector)?;
    collector.file(from, file, trouble);
    Ok(None)
}

/// The exporter of a file that does not name it.
fn exporter(args: &FlowsArgs, path: &Path, collector: &Collector) -> Result<IpAddr, Failure> {
    match (args.exporter, collector.exporters()) {
        (Some(address), _) if collector.knows(address) => Ok(address),
        (Some(address), _) => {
            Err(format!("{}: has no exporter {address}", args.exporters.display()).into())
        }
        (None, [one]) => Ok(one.address),
        (None, _) => Err(format!(
            "{}: is no capture and does not name its exporter: give it with --exporter ADDRESS",
            path.display()
        )
        .into()),
    }
}

/// Collects for the length of the window, then waits for late reports.
fn off_the_network(args: &FlowsArgs, collector: &mut Collector) -> Result<Window, Failure> {
    let sockets = collect::bind(&args.listen)
        .map_err(|(address, e)| format!("cannot listen at {address}: {e}"))?;
    let interrupt = interrupt()?;
    let length = args.window.as_ref().map_or(WINDOW, |w| Duration::from_nanos(w.0.0));
    let delay = Duration::from_nanos(args.delay.0.0);
    let begin = now();
    let window = Window { begin, end: begin + millis(length).max(1) };
    collector.begin(begin, window.length(), 1);
    for socket in &sockets {
        let address = socket.local_addr()?;
        note(&format!(
            "receiving flow records at udp://{address} for {} s",
            (length + delay).as_secs()
        ));
    }
    let collector = Mutex::new(collector);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for socket in &sockets {
            let (collector, stop) = (&collector, &stop);
            scope.spawn(move || {
                collect::receive(socket, stop, &|from, octets, at| {
                    if let Ok(mut collector) = collector.lock() {
                        collector.datagram(from, octets, at, &mut |t| {
                            tracing::debug!("from {from}, at octet {}: {}", t.at, t.what);
                        });
                    }
                });
            });
        }
        while now() < window.end + millis(delay) && !interrupt.is_raised() {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
    });
    match interrupt.is_raised() {
        true => Err(EngineError::Interrupted.into()),
        false => Ok(window),
    }
}
