//! Tests of a sendbox that starts into a queue that stands at the bottleneck, in the simulator.

use std::path::Path;

use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::results::Run;
use forebay_lab::scenario::parse;
use forebay_lab::sim_engine::Sim;

/// The rate of the path in Mbit/s.
const RATE: u64 = 6;

/// Runs four flows over a path of this round-trip time whose buffer holds `queue` seconds. The
/// sendbox starts when the buffer is full, and the run ends `after` seconds later.
fn run(queue: u64, rtt_ms: u64, after: u64) -> (Run, u64) {
    let start = 10 + 3 * queue;
    let packets = queue * RATE * 1_000_000 / 8 / 1_500 + 50;
    let text = format!(
        r#"
name = "start"
warmup = "1 s"
duration = "{} s"
[path]
rate = "{RATE} Mbit/s"
rtt = "{rtt_ms} ms"
queue = {{ kind = "fifo", limit = "{packets} packets" }}
[[arm]]
name = "forebay"
sendbox = {{ policy = "sfq", limit = "2000 packets" }}
start = "{start} s"
[[traffic]]
name = "bulk"
kind = "bulk"
flows = 4
"#,
        start + after
    );
    let scenario = parse(Path::new("start.toml"), &text).unwrap().cells.remove(0);
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    (Sim.run(&job, &Interrupt::default(), &mut |_| {}).unwrap(), start)
}

/// Returns after how many seconds the minimum RTT is that of the empty path to the end.
fn known_after(run: &Run, start: u64, rtt_ms: u64) -> Option<f64> {
    let right =
        |rtt: Option<u64>| rtt.is_some_and(|rtt| rtt < (rtt_ms + rtt_ms / 10 + 6) * 1_000_000);
    let wrong = run.ticks.iter().rposition(|tick| !right(tick.min_rtt));
    let first = run.ticks.get(wrong.map_or(0, |n| n + 1))?;
    Some(first.time as f64 / 1e9 - start as f64)
}

/// The first sample needs the queue's length, and the queue as long again to drain.
#[test]
fn a_standing_queue_of_seconds_is_drained_after_a_start() {
    for queue in [1, 5, 12] {
        let (run, start) = run(queue, 50, 3 * queue + 8);
        let after = known_after(&run, start, 50);
        eprintln!("{queue} s of queue: the minimum RTT is right after {after:.1?} s");
        let most = 2.2 * queue as f64 + 1.5;
        assert!(after.is_some_and(|s| s < most), "{queue} s of queue: {after:?}");
    }
}

/// A long path without a queue costs one and a half round trips at an eighth of the rate.
#[test]
fn a_long_path_is_not_drained_for_long() {
    let (run, start) = run(1, 600, 60);
    let seconds = |from: u64, to: u64| {
        let (from, to) = ((start + from) * 1_000_000_000, (start + to) * 1_000_000_000);
        let sent = run.sendbox.iter().filter(|r| (from..to).contains(&r.time.0));
        sent.map(|r| r.len.0 * 8).sum::<u64>() as f64 / (to - from) as f64 * 1e3
    };
    assert!(known_after(&run, start, 600).is_some_and(|s| s < 8.0));
    assert!(seconds(20, 60) > 0.9 * RATE as f64, "{} Mbit/s", seconds(20, 60));
}
