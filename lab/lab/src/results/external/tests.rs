use std::path::PathBuf;

use super::*;
use crate::analysis::{Analysis, Summary};

/// A result of a real run over a link of 20 Mbit/s, from `tests/external`.
fn summaries(name: &str) -> Vec<Summary> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/external").join(name);
    load(&path).unwrap().iter().map(|run| Analysis::of(run).summary).collect()
}

fn one(name: &str) -> Summary {
    let [summary] = &summaries(name)[..] else { panic!("one run") };
    summary.clone()
}

/// The expected figures below are from the files by sums in another language.
#[test]
fn flent() {
    let s = one("tcp_1up.flent.gz");
    assert_eq!((s.arm.as_str(), s.labels[TOOL].as_str()), ("forebay-fixture", "flent tcp_1up"));
    assert!((s.goodput_mbps - 20.367).abs() < 0.001, "{}", s.goodput_mbps);
    assert!((s.duration_s - 3.99).abs() < 0.001, "the upload's time only: {}", s.duration_s);
    let pings = s.round_trips_ms["Ping (ms) ICMP"];
    assert_eq!((pings.count, pings.p50, pings.p99), (20, Some(5.68), Some(46.4)));
}

#[test]
fn iperf3() {
    let s = one("iperf3-tcp.json.gz");
    assert_eq!((s.arm.as_str(), s.labels[TOOL].as_str()), ("iperf3-tcp", "iperf3 TCP"));
    assert!((s.goodput_mbps - 21.896).abs() < 0.001, "{}", s.goodput_mbps);
    assert_eq!(s.round_trips_ms["the kernel's estimate"].p50, Some(17.162));
    let s = one("iperf3-udp.json");
    assert!((s.goodput_mbps - 5.0).abs() < 0.001, "{}", s.goodput_mbps);
    assert!(s.round_trips_ms.is_empty());
}

#[test]
fn irtt() {
    let s = one("irtt.json.gz");
    let trips = s.round_trips_ms["irtt"];
    assert_eq!((trips.count, trips.lost, trips.p50), (59, 0, Some(5.428)));
}

#[test]
fn crusader() {
    let all = summaries("crusader.json.gz");
    let arms: Vec<_> = all.iter().map(|s| s.arm.as_str()).collect();
    assert_eq!(arms, ["crusader, download", "crusader, upload", "crusader, both ways"]);
    assert!((all[0].goodput_mbps - 17.043).abs() < 0.001, "{}", all[0].goodput_mbps);
    assert!((all[1].goodput_mbps - 17.375).abs() < 0.001, "{}", all[1].goodput_mbps);
    assert_eq!(all[2].goodput_by_traffic_mbps.len(), 2);
    assert_eq!([0, 1].map(|n| all[n].round_trips_ms["ping"].count), [45, 45]);
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let problem = |name: &str, text: &[u8]| {
        let path = std::env::temp_dir().join(format!("fb-external-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let error = load(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        error
    };
    assert!(problem("a.json", b"{\"x\": 1}").contains("not a result of flent"));
    assert!(problem("b.json", b"hello").contains("not JSON"));
    assert!(problem("c.json", b"{\"intervals\":1,\"start\":{}}").contains("of iperf3"));
    let failed = b"{\"start\":{},\"intervals\":[],\"error\":\"unable to connect\"}";
    assert!(problem("d.json", failed).contains("iperf3 failed: unable to connect"));
    let empty = b"{\"start\":{},\"intervals\":[]}";
    assert!(problem("e.json", empty).contains("measured nothing"));
    assert!(problem("f.json.gz", b"not gzip").contains("f.json.gz"));
}

#[test]
fn numbers_without_sense_are_left_out() {
    let mut run = Builder::new("a", "t");
    run.payload("x", 0, (0.0, f64::NAN), 9.0);
    run.payload("x", 0, (-1.0, 1.0), 9.0);
    run.round_trip("x", 0, 1.0, Some(f64::INFINITY));
    run.round_trip("x", 0, 1.0, None);
    let run = run.finish();
    assert!(run.progress.is_empty() && run.round_trips.len() == 1);
    assert_eq!(run.end.0, run.start.0 + 1);
}
