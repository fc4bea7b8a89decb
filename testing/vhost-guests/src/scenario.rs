//! Three scenarios, each with zD and with drops.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::backend::{Backend, EgressKind, Place};
use crate::guest;
use crate::machine::Machine;
use crate::sink::Sink;

/// Behaviour of a full buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Pause the virtual machines.
    Zd,
    /// Drop packets that do not fit.
    Drop,
}

/// Maximum time without output of a guest, which boots or works meanwhile.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(120);

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Connection between the back end and the sink.
    pub egress: EgressKind,
    /// Warm-up before the measurement, in seconds.
    pub warm_up: u64,
    /// Measured time in seconds.
    pub seconds: u64,
    /// Rate at which the buffer is emptied, in Mbit/s.
    pub mbps: u64,
    /// Size of the buffer in packets.
    pub limit: u64,
    /// The greedy guest.
    pub inside: Inside,
}

/// What is inside a guest.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    /// Number of backlogged flows.
    pub flows: u32,
    /// Length of the guest's own queue in packets.
    pub queue: u32,
    /// Whether the guest's kernel has the patch of `kernel/zd`, switched on.
    pub backpressure: bool,
}

impl Inside {
    /// A hundred flows over a queue of the usual length, without the patch.
    pub const USUAL: Self = Self { flows: 100, queue: 1000, backpressure: false };

    fn switch(self) -> &'static str {
        if self.backpressure { guest::ZD } else { "off" }
    }
}

/// Result of one guest with backlogged flows.
#[derive(Clone, Copy, Debug)]
pub struct Greedy {
    /// Packets that the scheduled buffer dropped in the whole run.
    pub dropped: u64,
    /// Packets that the buffer's AQM marked in the whole run.
    pub marked: u64,
    /// Segments that TCP retransmitted in the measured time.
    pub retransmissions: u64,
    /// Number of measured round trips.
    pub round_trips: u64,
    /// Packets that the guest's own queue dropped in the measured time.
    pub local_drops: u64,
    /// Median round trip in milliseconds.
    pub p50: f64,
    /// 99th percentile of round trips in milliseconds.
    pub p99: f64,
    /// 99.9th percentile of round trips in milliseconds.
    pub p999: f64,
    /// 99.99th percentile of round trips in milliseconds.
    pub p9999: f64,
    /// Payload that arrived at the sink, in Mbit/s.
    pub goodput: f64,
    /// Processor time of the back end's data thread, in percent of a core.
    pub cpu: f64,
    /// Packets taken out of the ring.
    pub taken: u64,
    /// Number of times that the guest was paused.
    pub paused: u64,
}

/// Result of two guests: a greedy one, and one with a single closed loop of requests.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// Number of answered requests.
    pub requests: u64,
    /// Median latency of the requests in milliseconds.
    pub p50: f64,
    /// 99th percentile of the latency in milliseconds.
    pub p99: f64,
    /// Packets that the scheduled buffer dropped.
    pub dropped: u64,
    /// Payload of the greedy guest that arrived, in Mbit/s.
    pub goodput: f64,
}

/// Result of one guest with a greedy application and a closed loop of requests.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// Number of answered requests.
    pub requests: u64,
    /// Median latency of the requests in milliseconds.
    pub p50: f64,
    /// 99th percentile of the latency in milliseconds.
    pub p99: f64,
    /// Packets that the scheduled buffer dropped.
    pub dropped: u64,
    /// Packets that the guest's own queues dropped in the measured time.
    pub local_drops: u64,
    /// Payload of the greedy application that arrived, in Mbit/s.
    pub goodput: f64,
    /// Packets taken out of each of several rings.
    pub taken: Vec<u64>,
    /// Number of times that the guest was paused because of each of several rings.
    pub paused: Vec<u64>,
}

fn config(mode: Mode, policy: &str, run: Run, place: &Place, vms: &[&str]) -> String {
    let mode = match mode {
        Mode::Zd => "zd",
        Mode::Drop => "drop",
    };
    let dir = place.dir.display();
    let mut text = format!(
        "[vhost]\nmode = \"{mode}\"\npolicy = \"{policy}\"\nrate = \"{} Mbit/s\"\n\
         limit = \"{} packets\"\n{}",
        run.mbps,
        run.limit,
        place.outside()
    );
    for vm in vms {
        text += &format!("[[vm]]\nname = \"{vm}\"\nsocket = \"{dir}/{vm}.sock\"\n");
    }
    text
}

fn words(line: String) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a count: {value}"))
}

/// Rate at the sink in Mbit/s: all bytes of the run over `seconds`, the time from the first byte
/// on.
fn goodput(sink: &Sink, seconds: f64) -> f64 {
    sink.bytes() as f64 * 8.0 / 1e6 / seconds
}

/// The work of the greedy guest.
fn stream(switch: &str, run: Run) -> String {
    let Inside { flows, queue, .. } = run.inside;
    format!("{switch} stream 10.99.0.2 {queue} {flows} {} {}", run.warm_up, run.seconds)
}

/// Runs one guest whose flows could fill the buffer many times.
pub fn greedy(kernel: &Path, mode: Mode, run: Run) -> Greedy {
    alone(kernel, mode, "fifo", run.inside.switch(), run)
}

/// Runs that guest at a back end with DualPI2 and without backpressure; its TCP asks for ECN.
pub fn with_dualpi2(kernel: &Path, run: Run) -> Greedy {
    alone(kernel, Mode::Drop, "dualpi2", guest::ECN, run)
}

fn alone(kernel: &Path, mode: Mode, policy: &str, switch: &str, run: Run) -> Greedy {
    let place = Place::new(run.egress);
    let backend = Backend::start(&place, &config(mode, policy, run, &place, &["greedy"]));
    let sink = Sink::start(&place);
    let socket = place.dir.join("greedy.sock");
    let guest = Machine::boot(kernel, &place.dir, &socket, &words(stream(switch, run)));
    let result = guest.result(OUTPUT_TIMEOUT);
    let total = backend.stop();
    let vm = &total["vms"][0];
    let whole = run.warm_up as f64 + number(&result["seconds"]);
    let cpu = count(&total["cpu_user_ns"]) + count(&total["cpu_system_ns"]);
    Greedy {
        dropped: count(&vm["dropped"]["queue"]),
        marked: count(&vm["marked"]),
        retransmissions: count(&result["retransmissions"]),
        round_trips: count(&result["rtt_ms"]["count"]),
        local_drops: count(&result["local_drops"]),
        p50: number(&result["rtt_ms"]["p50"]),
        p99: number(&result["rtt_ms"]["p99"]),
        p999: number(&result["rtt_ms"]["p999"]),
        p9999: number(&result["rtt_ms"]["p9999"]),
        goodput: goodput(&sink, whole),
        cpu: cpu as f64 / 1e7 / whole,
        taken: count(&vm["taken"]),
        paused: count(&vm["paused"]),
    }
}

/// Runs a greedy guest beside one with occasional requests. With zD the schedule is fair; without,
/// it is a FIFO as behind vhost-net.
pub fn shared(kernel: &Path, mode: Mode, run: Run) -> Shared {
    let place = Place::new(run.egress);
    let policy = if mode == Mode::Zd { "fair" } else { "fifo" };
    let text = config(mode, policy, run, &place, &["greedy", "quiet"]);
    let backend = Backend::start(&place, &text);
    let sink = Sink::start(&place);
    let boot = |vm: &str, work: String| {
        let socket = place.dir.join(format!("{vm}.sock"));
        Machine::boot(kernel, &place.dir, &socket, &words(work))
    };
    let greedy = boot("greedy", stream(run.inside.switch(), run));
    let queue = Inside::USUAL.queue;
    let work = format!("off requests 10.99.0.3 {queue} {} {}", run.warm_up, run.seconds);
    let quiet = boot("quiet", work);
    let answered = quiet.result(OUTPUT_TIMEOUT);
    let result = greedy.result(OUTPUT_TIMEOUT);
    let total = backend.stop();
    let dropped = |i: usize| count(&total["vms"][i]["dropped"]["queue"]);
    Shared {
        requests: count(&answered["latency_ms"]["count"]),
        p50: number(&answered["latency_ms"]["p50"]),
        p99: number(&answered["latency_ms"]["p99"]),
        dropped: dropped(0) + dropped(1),
        goodput: goodput(&sink, run.warm_up as f64 + number(&result["seconds"])),
    }
}

/// Runs one guest with `rings` pairs of rings, whose greedy application and whose requests use
/// different ones if there are several.
pub fn mixed(kernel: &Path, mode: Mode, run: Run, rings: u8) -> Mixed {
    let place = Place::new(run.egress);
    let text = config(mode, "fifo", run, &place, &["mixed"]) + &format!("queues = {rings}\n");
    let backend = Backend::start(&place, &text);
    let sink = Sink::start(&place);
    let socket = place.dir.join("mixed.sock");
    let Inside { flows, queue, .. } = run.inside;
    let switch = run.inside.switch();
    let work =
        format!("{switch} mixed 10.99.0.2 {queue} {rings} {flows} {} {}", run.warm_up, run.seconds);
    let guest = Machine::boot(kernel, &place.dir, &socket, &words(work));
    let result = guest.result(OUTPUT_TIMEOUT);
    let total = backend.stop();
    let vm = &total["vms"][0];
    let of_rings = |key: &str| {
        let rings = vm["rings"].as_array().map(Vec::as_slice).unwrap_or_default();
        rings.iter().map(|ring| count(&ring[key])).collect()
    };
    Mixed {
        requests: count(&result["latency_ms"]["count"]),
        p50: number(&result["latency_ms"]["p50"]),
        p99: number(&result["latency_ms"]["p99"]),
        dropped: count(&vm["dropped"]["queue"]),
        local_drops: count(&result["local_drops"]),
        goodput: goodput(&sink, run.warm_up as f64 + number(&result["seconds"])),
        taken: of_rings("taken"),
        paused: of_rings("paused"),
    }
}
