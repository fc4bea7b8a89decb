use super::*;
use crate::scenarios::sizes::Sizes;
use forebay_lab::analysis::Size;
use forebay_lab::results::{Phase, RoundTrip};
use forebay_lab::scenario::parse;
use forebay_units::Bytes;

const SCENARIO: &str = r#"name = "x"
duration = "10 s"
[path]
rate = "8 Mbit/s"
rtt = "100 ms"
queue = { kind = "fifo", limit = "1 bdp" }
[[traffic]]
name = "web"
kind = "requests"
load = "10 %"
connections = 2
[[traffic]]
name = "others"
kind = "requests"
from = "cross"
load = "10 %"
connections = 5
[[traffic]]
name = "more"
kind = "requests"
load = "10 %"
connections = 3
[[traffic]]
name = "bulk"
kind = "bulk"
flows = 2
[[arm]]
name = "a"
sendbox = "forward"
"#;

const SECOND: u64 = 1_000_000_000;

fn quantity(measure: Measure) -> Quantity {
    Quantity {
        measure,
        at: Statistic::Mean,
        traffic: Vec::new(),
        phase: None,
        size: Sizes::default(),
        mode: String::new(),
        bundle: None,
    }
}

fn of(quantity: &Quantity, run: &Run) -> Vec<f64> {
    let scenario = parse("x.toml".as_ref(), SCENARIO).unwrap().cells.remove(0);
    sample(quantity, &scenario, run).values().to_vec()
}

/// 10 s from 5 s on, with a phase from 8 s to 12 s.
fn run() -> Run {
    let phase = Phase { name: "middle".to_owned(), start: 8 * SECOND, stop: 12 * SECOND };
    Run {
        start: Nanos(5 * SECOND),
        end: Nanos(15 * SECOND),
        rate: Rate::from_mbps(8),
        base_rtt: Nanos::from_millis(100),
        phases: vec![phase],
        ..Run::default()
    }
}

fn request(connection: u32, size: u64, start_ms: u64, takes_ms: u64) -> Request {
    let start = start_ms * 1_000_000;
    Request { id: 0, connection, size, start, end: Some(start + takes_ms * 1_000_000) }
}

#[test]
fn requests_by_traffic_phase_and_size() {
    // 10 kB take 10 ms on the wire and 100 ms there and back: ideal 110 ms. 100 kB: 200 ms.
    let mut run = run();
    run.requests = vec![
        request(0, 10_000, 4_999, 110),
        request(1, 10_000, 5_000, 110),
        request(2, 10_000, 9_000, 220),
        request(4, 100_000, 9_000, 600),
        Request { end: None, ..request(1, 10_000, 14_450, 0) },
    ];
    let slowdown = quantity(Measure::Slowdown);
    assert_eq!(of(&slowdown, &run), [1.0, 2.0, 3.0, 5.0]);
    let more = Quantity { traffic: vec!["more".to_owned()], ..slowdown.clone() };
    assert_eq!(of(&more, &run), [2.0, 3.0], "cross traffic's connections are not counted");
    let small = Quantity { size: Sizes::Class(Size::Small), ..more };
    assert_eq!(of(&small, &run), [2.0]);
    let middle = Quantity { phase: Some("middle".to_owned()), ..quantity(Measure::CompletionTime) };
    assert_eq!(of(&middle, &run), [220.0, 600.0]);
    let none = Quantity { phase: Some("cut away".to_owned()), ..slowdown };
    assert!(of(&none, &run).is_empty());
}

#[test]
fn waits_of_both_queues_are_added() {
    let record = |second: u64, wait_ms, fate| Record {
        time: Nanos(second * SECOND),
        sojourn: Nanos::from_millis(wait_ms),
        len: Bytes(1500),
        source: 0,
        flow: 0,
        fate,
        l4s: false,
        marked: false,
    };
    let mut run = run();
    run.bottleneck =
        vec![record(4, 99, Fate::Sent), record(6, 3, Fate::Sent), record(9, 5, Fate::Sent)];
    let p50 = |measure| Quantity { at: Statistic::Percentile(50), ..quantity(measure) };
    assert_eq!(of(&p50(Measure::BottleneckQueue), &run), [3.0]);
    assert_eq!(of(&p50(Measure::SendboxQueue), &run), [0.0], "it only forwards");
    run.sendbox = vec![record(6, 20, Fate::Sent), record(7, 90, Fate::Dropped)];
    assert_eq!(of(&p50(Measure::Queues), &run), [23.0]);
    let classic = Quantity { traffic: vec!["bulk".to_owned()], ..p50(Measure::Queues) };
    assert!(of(&classic, &run).is_empty(), "some of what is not L4S");
    run.bottleneck.clear();
    assert!(of(&p50(Measure::Queues), &run).is_empty());
}

#[test]
fn goodput_and_round_trips_by_traffic() {
    let progress = |traffic: &str, second, bytes| Progress {
        traffic: traffic.to_owned(),
        flow: 0,
        time: second * SECOND,
        bytes,
    };
    let trip = |start, end| RoundTrip { traffic: "loops".to_owned(), flow: 0, start, end };
    let mut run = run();
    run.progress = vec![
        progress("bulk", 5, 99_000_000),
        progress("bulk", 9, 1_000_000),
        progress("web", 15, 250_000),
    ];
    run.round_trips = vec![trip(6 * SECOND, Some(6 * SECOND + 1_500_000)), trip(7 * SECOND, None)];
    assert_eq!(of(&quantity(Measure::Goodput), &run), [1.0]);
    let bulk = Quantity { traffic: vec!["bulk".to_owned()], ..quantity(Measure::Goodput) };
    assert_eq!(of(&bulk, &run), [0.8]);
    let middle = Quantity { phase: Some("middle".to_owned()), ..bulk };
    assert_eq!(of(&middle, &run), [2.0]);
    assert_eq!(of(&quantity(Measure::RoundTrip), &run), [1.5]);
}

#[test]
fn modes_and_order_are_of_all_bundles() {
    let tick = |second, bundle: &str, mode: &str, accepted, out_of_order| Tick {
        time: second * SECOND,
        bundle: bundle.to_owned(),
        mode: mode.to_owned(),
        accepted,
        out_of_order,
        rate: None,
        rtt: None,
        min_rtt: None,
        send_rate: None,
        receive_rate: None,
        epoch: 1,
        backlog: 0,
        response: None,
        contrast: None,
    };
    let mut run = run();
    run.ticks = vec![
        tick(4, "b", "open", 10, 10),
        tick(5, "b", "delay control", 100, 20),
        tick(5, "c", "pass-through", 0, 0),
        tick(14, "b", "delay control", 150, 21),
        tick(14, "c", "pass_through", 40, 9),
    ];
    assert_eq!(of(&quantity(Measure::OutOfOrder), &run), [10.0]);
    let mode = |mode: &str| Quantity { mode: mode.to_owned(), ..quantity(Measure::Mode) };
    assert_eq!(of(&mode("pass_through"), &run), [50.0]);
    assert_eq!(of(&mode("open"), &run), [0.0]);
    run.ticks.clear();
    assert!(
        of(&mode("open"), &run).is_empty() && of(&quantity(Measure::OutOfOrder), &run).is_empty()
    );
}

#[test]
fn fairness_by_hand() {
    let mut run = run();
    // Two flows: nothing, one alone, three to one, and then the same for both.
    let shares = [(0, 0), (4, 0), (3, 1), (2, 2), (2, 2), (2, 2), (2, 2), (2, 2), (4, 0), (2, 2)];
    for (second, (a, b)) in (5..).zip(shares) {
        for (flow, bytes) in [(0, a), (1, b)] {
            let time = (second + 1) * SECOND;
            run.progress.push(Progress { traffic: "bulk".to_owned(), flow, time, bytes });
        }
    }
    // 0, 1/2, 16/20, 1 five times, 1/2, 1.
    let mean = (0.5 + 0.8 + 5.0 + 0.5 + 1.0) / 10.0;
    let bulk = |measure| Quantity { traffic: vec!["bulk".to_owned()], ..quantity(measure) };
    assert!((of(&bulk(Measure::Fairness), &run)[0] - mean).abs() < 1e-12);
    assert_eq!(of(&bulk(Measure::FairAfter), &run), [3.0]);
    run.progress.truncate(10);
    assert_eq!(of(&bulk(Measure::FairAfter), &run), [10.0], "never");
}

#[test]
fn waits_and_modes_of_one_bundle() {
    let tick = |bundle: &str, mode: &str, backlog: u64| -> Tick {
        let json = serde_json::json!({
            "time": 6 * SECOND, "bundle": bundle, "mode": mode, "rate": 8_000_000, "rtt": null,
            "min_rtt": null, "send_rate": null, "receive_rate": null, "epoch": 16,
            "backlog": backlog,
        });
        serde_json::from_value(json).unwrap()
    };
    let mut run = run();
    run.ticks = vec![tick("b", "open", 1_000), tick("outer", "delay control", 5_000)];
    let of_bundle = |measure, bundle: &str| {
        let mode = "open".to_owned();
        of(&Quantity { mode, bundle: Some(bundle.to_owned()), ..quantity(measure) }, &run)
    };
    assert_eq!(of_bundle(Measure::SendboxQueue, "b"), [1.0]);
    assert_eq!(of_bundle(Measure::SendboxQueue, "outer"), [5.0]);
    assert_eq!(of_bundle(Measure::Mode, "b"), [100.0]);
    assert_eq!(of_bundle(Measure::Mode, "outer"), [0.0]);
    assert!(of_bundle(Measure::Mode, "b2").is_empty());
    let all = Quantity { mode: "open".to_owned(), ..quantity(Measure::Mode) };
    assert_eq!(of(&all, &run), [50.0]);
}
