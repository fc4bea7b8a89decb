use std::path::PathBuf;

use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};
use proptest::prelude::*;

use super::*;
use crate::results::{
    Event, FaultRecord, HopCounters, Phase, Progress, Request, RoundTrip, Tick, Value,
};

/// A file that is removed when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("fb-store-{}-{name}", std::process::id())))
    }

    fn with(name: &str, text: &[u8]) -> Self {
        let scratch = Self::new(name);
        fs::write(&scratch.0, text).unwrap();
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn record(time: u64, sojourn: u64, fate: Fate) -> Record {
    Record {
        time: Nanos(time),
        sojourn: Nanos(sojourn),
        len: Bytes(1514),
        source: 255,
        flow: 7,
        fate,
        l4s: true,
        marked: false,
    }
}

/// Returns a run with a record of every kind, and more packets than fit on a line.
fn run() -> Run {
    Run {
        arm: "forebay_sfq".into(),
        seed: u64::MAX,
        start: Nanos(1_000),
        end: Nanos(2_000),
        rate: Rate::from_mbps(96),
        base_rtt: Nanos::from_millis(50),
        requests: vec![
            Request { id: 0, connection: 7, size: 10_000, start: 1_100, end: Some(1_900) },
            Request { id: 1, connection: 8, size: 99, start: 1_200, end: None },
        ],
        progress: vec![Progress { traffic: "bulk \"1\"".into(), flow: 2, time: 1_500, bytes: 9 }],
        round_trips: vec![RoundTrip { traffic: "voip".into(), flow: 0, start: 5, end: None }],
        whose: Vec::new(),
        senders: Vec::new(),
        bottleneck: (0..1300).map(|i| record(u64::MAX - 1300 + i, i, Fate::Sent)).collect(),
        // Out of order, and at the ends of the range.
        sendbox: vec![
            record(9, 0, Fate::Dropped),
            record(0, 8, Fate::Sent),
            record(u64::MAX, 1, Fate::Sent),
        ],
        ticks: vec![Tick {
            time: 1_010,
            bundle: "to-b".into(),
            mode: "delay_control".into(),
            rate: Some(95_000_000),
            rtt: Some(51_000_000),
            min_rtt: None,
            send_rate: None,
            receive_rate: Some(1),
            response: None,
            contrast: None,
            epoch: 64,
            backlog: 3,
            accepted: 0,
            out_of_order: 0,
        }],
        events: vec![Event {
            time: 1_020,
            bundle: "to-b".into(),
            kind: "mode_changed".into(),
            values: [
                ("to".to_owned(), Value::Name("open".into())),
                ("silence".to_owned(), Value::Number(9)),
            ]
            .into(),
            text: "mode delay control -> open".into(),
        }],
        hops: vec![HopCounters { hop: "link".into(), received: 1, sent: 1, ..Default::default() }],
        labels: [("queue", "fq_codel 1000 packets"), ("flows", "10")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        phases: vec![Phase { name: "on".into(), start: 1_000, stop: 1_200 }],
        tally: None,
        faults: vec![
            FaultRecord { process: "receivebox".into(), killed: 1_300, ready: Some(1_400) },
            FaultRecord { process: "receivebox".into(), killed: 1_500, ready: None },
        ],
        bundle_source: Some(1),
        link_header: Bytes(14),
    }
}

fn text() -> Vec<u8> {
    let mut text = Vec::new();
    write(&mut text, &run()).unwrap();
    text
}

/// The error of loading `text`, without the path.
fn problem(name: &str, text: &[u8]) -> (u64, String) {
    match load(&Scratch::with(name, text).0) {
        Err(StoreError::Line { line, problem, .. }) => (line, problem),
        other => panic!("not an error of a line: {other:?}"),
    }
}

#[test]
fn a_saved_run_is_loaded_unchanged() {
    let scratch = Scratch::new("whole.jsonl");
    save(&scratch.0, &run()).unwrap();
    assert_eq!(load(&scratch.0).unwrap(), run());
    assert!(!scratch.0.with_extension("partial").exists());
}

#[test]
fn files_from_before_there_were_faults_events_and_intervals_are_read() {
    let plain = Run { faults: vec![], events: vec![], ..run() };
    let mut text = Vec::new();
    write(&mut text, &plain).unwrap();
    let mut old = String::from_utf8(text).unwrap();
    for count in ["\"faults\":0,", "\"events\":0,", "\"intervals\":2,"] {
        assert!(old.contains(count));
        old = old.replacen(count, "", 1);
    }
    let lines = old.split_inclusive('\n').filter(|line| !line.starts_with("{\"interval\""));
    let old: String = lines.collect();
    assert!(!old.contains("fault") && !old.contains("event") && !old.contains("interval"));
    let scratch = Scratch::with("old.jsonl", old.as_bytes());
    assert_eq!(load(&scratch.0).unwrap(), plain);
}

#[test]
fn files_from_before_packets_had_flows_are_read() {
    let without = |r: Record| Record { flow: 0, ..r };
    let plain = Run {
        bottleneck: run().bottleneck.into_iter().map(without).collect(),
        sendbox: run().sendbox.into_iter().map(without).collect(),
        ..run()
    };
    let mut text = Vec::new();
    write(&mut text, &plain).unwrap();
    let text = String::from_utf8(text).unwrap();
    // A packet was five numbers in version 1.
    let old = text.replacen("\"version\":2", "\"version\":1", 1);
    let old = old.replace(",2,0]", ",2]").replace(",3,0]", ",3]");
    assert_eq!(text.len() - old.len(), 2 * (run().bottleneck.len() + run().sendbox.len()));
    let scratch = Scratch::with("version-1.jsonl", old.as_bytes());
    assert_eq!(load(&scratch.0).unwrap(), plain);
}

#[test]
fn every_cut_is_noticed_and_its_line_named() {
    let text = text();
    let lines = text.iter().filter(|b| **b == b'\n').count() as u64;
    // Cuts in the first lines and around the end; those within packets are all alike.
    for cut in (0..1_500).chain(text.len() - 300..text.len()) {
        let whole = text[..cut].iter().filter(|b| **b == b'\n').count() as u64;
        let (line, problem) = problem("cut.jsonl", &text[..cut]);
        assert_eq!(line, whole + 1, "cut at {cut}: {problem}");
        assert!(line <= lines);
    }
    let last = text[..text.len() - 1].iter().rposition(|b| *b == b'\n').unwrap();
    assert_eq!(
        problem("last.jsonl", &text[..=last]).1,
        "the file ends here, 3 of 3 sendbox packets are missing"
    );
    assert_eq!(problem("mid.jsonl", &text[..text.len() - 1]).1, "the file ends in mid-line");
}

#[test]
fn a_damaged_line_is_named() {
    let whole = String::from_utf8(text()).unwrap();
    let with = |from: &str, to: &str| whole.replacen(from, to, 1).into_bytes();
    let of = |text: Vec<u8>| problem("damaged.jsonl", &text);
    assert!(of(with("\"tick\"", "\"tack\"")).1.starts_with("not a record: unknown variant `tack`"));
    assert_eq!(of(with("\"version\":2", "\"version\":3")).0, 1);
    assert_eq!(of(with("\"rate\":96000000", "\"rate\":0")).1, "the bottleneck's rate is zero");
    assert_eq!(of(with("\"end\":2000", "\"end\":1000")).1, "measuring ends before it begins");
    assert_eq!(
        of(with("\"requests\":2", "\"requests\":1")).1,
        "more than the 1 requests announced"
    );
    assert_eq!(of(with("\"hops\":1", "\"hops\":50000001")).1, "announces 50000001 hops");
    assert_eq!(of([text(), text()].concat()).1, "a second header");
    assert_eq!(of(b"{\"hop\":{}}\n".to_vec()).0, 1);
    assert_eq!(of(vec![b'x'; 1 << 21]).1, "too long for a line");
}

#[test]
fn files_of_a_directory() {
    let dir = Scratch::new("dir");
    fs::create_dir_all(&dir.0).unwrap();
    assert!(matches!(files(&dir.0), Err(StoreError::None(_))));
    for name in ["b-1.jsonl", "a-2.jsonl", "a-1.partial"] {
        fs::write(dir.0.join(name), "").unwrap();
    }
    let found = files(&dir.0).unwrap();
    fs::remove_dir_all(&dir.0).unwrap();
    assert_eq!(found, [dir.0.join("a-2.jsonl"), dir.0.join("b-1.jsonl")]);
    assert!(matches!(files(&dir.0), Err(StoreError::Io { .. })));
}

#[test]
fn names_of_files_do_not_collide() {
    let name = |arm: &str| file_name(&Run { arm: arm.into(), seed: 3, labels: [].into(), ..run() });
    assert_eq!(name("forebay_sfq"), "forebay_sfq-96mbit-50ms-3.jsonl");
    assert_eq!(name("../a b"), "%2E%2E%2Fa+b-96mbit-50ms-3.jsonl");
    let labelled = file_name(&Run { arm: "x".into(), seed: 3, ..run() });
    assert_eq!(labelled, "x-96mbit-50ms-10-fq_codel+1000+packets-3.jsonl");
}

fn packet() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u8>(), any::<u16>());
    (numbers, 0..8u8).prop_map(|((time, sojourn, len, source, flow), flags)| {
        let (time, sojourn, len) = (Nanos(time), Nanos(sojourn), Bytes(len));
        Record { time, sojourn, len, source, flow, ..Record::of_flags(flags) }
    })
}

proptest! {
    #[test]
    fn packets_survive_packing(records in prop::collection::vec(packet(), 0..40)) {
        let unpacked: Vec<Record> = line::unpack(line::pack(&records)).collect();
        prop_assert_eq!(unpacked, records);
    }
}
