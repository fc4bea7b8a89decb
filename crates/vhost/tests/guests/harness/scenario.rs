//! The two situations that zD is for, each with it and without.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::backend::{Backend, Place, Way};
use super::machine::Machine;
use super::sink::Sink;

/// What a full buffer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Zd,
    Drop,
}

/// How long a guest may say nothing: it boots, or works.
const PATIENCE: Duration = Duration::from_secs(120);

/// Over what, how long to measure, and how fast the buffer is emptied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) way: Way,
    pub(crate) warm_up: u64,
    pub(crate) seconds: u64,
    pub(crate) mbps: u64,
    /// Packets that fit into the buffer.
    pub(crate) limit: u64,
}

/// One guest with a hundred backlogged flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greedy {
    /// Packets that the scheduled buffer dropped, in the whole run.
    pub(crate) dropped: u64,
    /// Segments that TCP sent again while it was measured.
    pub(crate) retransmissions: u64,
    /// Round trips that were measured.
    pub(crate) round_trips: u64,
    /// Round trips, in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    /// Payload that arrived, in Mbit/s.
    pub(crate) goodput: f64,
    /// What the back end's thread took of a core, in percent.
    pub(crate) cpu: f64,
    /// Packets that were taken out of the ring, how often it was paused.
    pub(crate) taken: u64,
    pub(crate) paused: u64,
}

/// Two guests: that one, and one with a single closed loop of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Requests answered.
    pub(crate) requests: u64,
    /// Of the requests, in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Packets that the scheduled buffer dropped.
    pub(crate) dropped: u64,
    pub(crate) goodput: f64,
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
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

/// What went through the sink while the guest measured, in Mbit/s: all that it sent in the whole run, over
/// the time from the first byte on.
fn goodput(sink: &Sink, seconds: f64) -> f64 {
    sink.bytes() as f64 * 8.0 / 1e6 / seconds
}

/// One guest whose flows could fill the buffer many times.
pub(crate) fn greedy(kernel: &Path, mode: Mode, run: Run) -> Greedy {
    let place = Place::new(run.way);
    let backend = Backend::start(&place, &config(mode, "fifo", run, &place, &["greedy"]));
    let sink = Sink::start(&place);
    let work = words(format!("10.99.0.2 stream 100 {} {}", run.warm_up, run.seconds));
    let guest = Machine::boot(kernel, &place.dir, &place.dir.join("greedy.sock"), &work);
    let result = guest.result(PATIENCE);
    let total = backend.stop();
    let vm = &total["vms"][0];
    let whole = run.warm_up as f64 + number(&result["seconds"]);
    let cpu = count(&total["cpu_user_ns"]) + count(&total["cpu_system_ns"]);
    Greedy {
        dropped: count(&vm["dropped"]["queue"]),
        retransmissions: count(&result["retransmissions"]),
        round_trips: count(&result["rtt_ms"]["count"]),
        p50: number(&result["rtt_ms"]["p50"]),
        p999: number(&result["rtt_ms"]["p999"]),
        p9999: number(&result["rtt_ms"]["p9999"]),
        goodput: goodput(&sink, whole),
        cpu: cpu as f64 / 1e7 / whole,
        taken: count(&vm["taken"]),
        paused: count(&vm["paused"]),
    }
}

/// The same guest, and one that only wants an answer now and then. With zD the schedule is fair; without
/// it is what vhost-net over a FIFO gives.
pub(crate) fn shared(kernel: &Path, mode: Mode, run: Run) -> Shared {
    let place = Place::new(run.way);
    let policy = if mode == Mode::Zd { "fair" } else { "fifo" };
    let text = config(mode, policy, run, &place, &["greedy", "quiet"]);
    let backend = Backend::start(&place, &text);
    let sink = Sink::start(&place);
    let boot = |vm: &str, work: String| {
        Machine::boot(kernel, &place.dir, &place.dir.join(format!("{vm}.sock")), &words(work))
    };
    let greedy = boot("greedy", format!("10.99.0.2 stream 100 {} {}", run.warm_up, run.seconds));
    let quiet = boot("quiet", format!("10.99.0.3 requests {} {}", run.warm_up, run.seconds));
    let answered = quiet.result(PATIENCE);
    let result = greedy.result(PATIENCE);
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
