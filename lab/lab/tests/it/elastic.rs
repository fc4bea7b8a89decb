//! Tests of a bundle's mode with cross traffic that starts and stops and with parallel paths, in
//! the simulator.

use std::path::Path;

use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::results::Run;
use forebay_lab::scenario::parse;
use forebay_lab::sim_engine::Sim;
use forebay_units::Nanos;

/// Returns a scenario with a bundle of backlogged flows and the traffic of `rest`.
fn scenario(duration: u32, path: &str, rest: &str) -> String {
    format!(
        r#"
name = "elastic"
warmup = "2 s"
duration = "{duration} s"
[path]
rate = "96 Mbit/s"
rtt = "50 ms"
queue = {{ kind = "fifo", limit = "2 bdp" }}
{path}
[[arm]]
name = "forebay"
sendbox = {{ policy = "sfq", limit = "2000 packets"REST }}
[[traffic]]
name = "bulk"
kind = "bulk"
transport = "tcp"
flows = 20
{rest}
"#
    )
}

fn run(text: &str, seed: u64) -> Run {
    let scenario = parse(Path::new("elastic.toml"), text).unwrap().cells.remove(0);
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed };
    Sim.run(&job, &Interrupt::default(), &mut |_| {}).unwrap()
}

/// Returns the share of the time between two seconds during which the bundle was in `mode`.
fn share(run: &Run, mode: &str, from: u64, to: u64) -> f64 {
    let inside = run.ticks.iter().filter(|t| (from..to).contains(&(t.time / 1_000_000_000)));
    let (all, those) =
        inside.fold((0, 0), |(all, those), t| (all + 1, those + u32::from(t.mode == mode)));
    f64::from(those) / f64::from(all)
}

/// Returns the share of packets that overtook another one at the sendbox between two seconds.
fn overtaking(run: &Run, from: u64, to: u64) -> f64 {
    let (mut all, mut those, mut newest) = (0, 0, Nanos::ZERO);
    for record in &run.sendbox {
        let arrived = record.time - record.sojourn;
        if (from..to).contains(&(record.time.0 / 1_000_000_000)) {
            all += 1;
            those += u32::from(arrived < newest);
        }
        newest = newest.max(arrived);
    }
    f64::from(those) / f64::from(all)
}

const CROSS: &str = r#"
[[traffic]]
name = "elastic"
kind = "bulk"
flows = 20
from = "cross"
start = "12 s"
stop = "37 s"
[[traffic]]
name = "web"
kind = "requests"
load = "30 %"
connections = 50
max_size = "1 MB"
from = "cross"
start = "37 s"
"#;

#[test]
fn the_bundle_passes_through_only_with_elastic_cross_traffic() {
    let text = scenario(58, "", CROSS).replace("REST", ", cross_traffic = \"detect\"");
    for seed in 1..=3 {
        let run = run(&text, seed);
        assert_eq!(share(&run, "pass-through", 1, 12), 0.0, "seed {seed}: without cross traffic");
        assert_eq!(share(&run, "pass-through", 22, 37), 1.0, "seed {seed}: ten seconds in");
        assert!(overtaking(&run, 4, 12) > 0.1, "seed {seed}: flows take turns");
        assert_eq!(
            overtaking(&run, 24, 37),
            0.0,
            "seed {seed}: in order, also during drain probes"
        );
        // The web traffic that follows fills the bottleneck at times, so the change takes longer.
        assert_eq!(share(&run, "delay control", 57, 60), 1.0, "seed {seed}: twenty seconds after");
    }
}

/// The bundle detects this by an empty bottleneck, or by a drain probe after the queue fell.
#[test]
fn delay_control_resumes_when_the_queue_has_gone() {
    let bulk = "kind = \"bulk\"\ntransport = \"tcp\"\nflows = 20";
    let web = "kind = \"requests\"\nload = \"40 %\"\nconnections = 50\nmax_size = \"300 kB\"";
    let text = scenario(45, "", CROSS).replacen(bulk, web, 1);
    let text = text.replace("REST", ", cross_traffic = \"detect\"");
    for seed in 1..=3 {
        let run = run(&text, seed);
        assert!(share(&run, "pass-through", 22, 37) > 0.9, "seed {seed}: with elastic traffic");
        assert_eq!(share(&run, "delay control", 42, 47), 1.0, "seed {seed}: five seconds after");
    }
}

#[test]
fn the_bundle_does_not_probe_without_detection_and_guard() {
    let text = scenario(30, "", CROSS).replace("REST", ", guard = false");
    let run = run(&text.replace("37 s", "31 s"), 1);
    assert_eq!(share(&run, "delay control", 1, 32), 1.0);
    assert!(run.ticks.iter().all(|t| t.response.is_none()), "no pulses");
}

/// The default: tests of the rate find elastic traffic, and drain probes its end.
#[test]
fn a_guard_passes_through_beside_elastic_traffic_without_pulses() {
    let text = scenario(58, "", CROSS).replace("REST", "");
    for seed in 1..=3 {
        let run = run(&text, seed);
        assert!(run.ticks.iter().all(|t| t.response.is_none()), "seed {seed}: no pulses");
        assert_eq!(share(&run, "pass-through", 1, 12), 0.0, "seed {seed}: without cross traffic");
        let through = share(&run, "pass-through", 27, 37);
        assert!(through > 0.9, "seed {seed}: fifteen seconds in, {through}");
        let back = share(&run, "delay control", 57, 60);
        assert!(back > 0.9, "seed {seed}: twenty seconds after, {back}");
    }
}

const WAYS: &str = r#"
[[path.way]]
rate = "24 Mbit/s"
[[path.way]]
rate = "24 Mbit/s"
rtt = "60 ms"
[[path.way]]
rate = "24 Mbit/s"
rtt = "70 ms"
[[path.way]]
rate = "24 Mbit/s"
rtt = "80 ms"
"#;

#[test]
fn the_bundle_opens_over_four_paths_and_not_over_one() {
    let four = run(&scenario(20, WAYS, "").replace("REST", ""), 1);
    assert_eq!(share(&four, "open", 4, 22), 1.0);
    let reasons =
        |run: &Run| run.events.iter().filter(|e| e.text.contains("several paths")).count();
    assert_eq!(reasons(&four), 1);
    let one = run(&scenario(20, "", "").replace("REST", ""), 1);
    assert_eq!((share(&one, "open", 1, 22), reasons(&one)), (0.0, 0));
    let told = run(&scenario(8, WAYS, "").replace("REST", ", multipath = \"ignore\""), 1);
    assert_eq!(reasons(&told), 0);
}
