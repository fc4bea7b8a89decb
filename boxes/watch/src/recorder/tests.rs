use std::fs;
use std::io;
use std::path::PathBuf;

use forebay_records::{NotUnderstood, STATUS_VERSION};
use serde_json::json;

use super::*;

/// A time on a minute, in seconds since 1970.
const START: u64 = 1_800_000_000;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fb-watch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.db")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn decision(number: u64, ago_s: f64) -> Decision {
    Decision {
        number,
        ago_s,
        kind: "mode_changed".to_owned(),
        values: [("reason".to_owned(), Value::Name("measured".to_owned()))].into(),
        text: format!("decision {number}"),
    }
}

/// A site of `peers` peers that is up for `up` seconds.
fn site(up: u64, peers: usize) -> Status {
    let send = |peer: usize| {
        serde_json::from_value(json!({
            "name": format!("peer {peer}"), "receivebox": "192.0.2.1:28316",
            "mode": if up % 100 < 60 { "delay control" } else { "open" },
            "mode_s": 3.0, "reason": "first measured", "reason_kind": "measured", "phase": null,
            "trouble": null, "rate_bps": 24_000_000 + up, "send_bps": 23_000_000,
            "receive_bps": 22_000_000 + up, "loss": 0.01, "rtt_ms": 52.0, "min_rtt_ms": 50.0,
            "rtt_range_ms": [51.0, 57.5], "backlog_bytes": 90_000, "wait_here_ms": 30.25,
            "wait_network_ms": 2.125, "packets": up, "bytes": up * 1000, "dropped": up * 2,
            "marked": null, "refused": 0, "waits": {
                "small": {"packets": up, "waited_ms": 2.0, "mean_ms": 1.5, "longest_ms": 4.0},
                "large": {"packets": up, "waited_ms": 9.0, "mean_ms": 90.0, "longest_ms": 120.5},
                "classes": [{"name": "voice", "packets": 0, "waited_ms": 0.0, "mean_ms": null,
                             "longest_ms": null},
                            {"name": "rest", "packets": up, "waited_ms": 9.0, "mean_ms": 80.0,
                             "longest_ms": 120.5}]}, "measurements": 5, "unmatched": 0, "decided": 1,
            "decisions": [{"number": 1, "ago_s": up, "kind": "mode_changed", "values": {},
                           "text": "mode open -> delay control: first measured"}]
        }))
        .unwrap()
    };
    let receive = |peer: usize| ReceiveStatus {
        name: format!("peer {peer}"),
        key_fingerprint: None,
        sendbox: "192.0.2.1:28316".parse().ok(),
        moves: 0,
        trouble: None,
        heard_s: Some(0.5),
        packets: up,
        bytes: up * 500,
        refused: 0,
        unanswered: 0,
    };
    Status {
        version: STATUS_VERSION,
        role: "site".to_owned(),
        process: 7,
        run: 99,
        up_s: up as f64,
        interfaces: vec!["wan0".to_owned()],
        not_understood: NotUnderstood::default(),
        hand_over_drops: None,
        strangers: 0,
        sends: (0..peers).map(send).collect(),
        receives: (0..peers).map(receive).collect(),
    }
}

fn answer(status: Status) -> Vec<Answer> {
    vec![Answer { process: status.process, status: Ok(status) }]
}

fn to(peer: usize) -> Series {
    let name = format!("peer {peer}");
    Series { place: "site at wan0".to_owned(), name, direction: Direction::To }
}

fn kinds(recorder: &Recorder) -> Vec<String> {
    let events = recorder.store().events(0, true, 1_000).unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

/// Three peers in both directions: a state a second in the first and the last hour, and one every
/// 15 seconds between, of which only the minutes are left.
#[test]
fn a_day_of_three_peers_is_complete_and_small() {
    let dir = Dir::new("day");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    let end = START + 86_400 + 3_600;
    let (first, last) = (START..START + 3_600, end - 3_600..=end);
    let between = (START + 3_600..end - 3_600).step_by(15);
    for now in first.chain(between).chain(last) {
        recorder.record(now * 1000, &answer(site(now - START, 3)));
    }
    recorder.write(end);
    let hour = recorder.store().rows(&to(1), Range::Hour, end).unwrap();
    assert_eq!(hour.len(), 3_600);
    assert_eq!((hour[0].at, hour[3_599].at), (end - 3_599, end));
    let day = recorder.store().rows(&to(1), Range::Day, end).unwrap();
    // The minute that began just now is not over.
    assert_eq!(day.len(), 1_439);
    assert!(day.windows(2).all(|pair| pair[1].at == pair[0].at + 60));
    let files = ["", "-wal", "-shm"].map(|suffix| crate::store::beside(&dir.file(), suffix));
    let bytes: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|m| m.len()).sum();
    println!("a day of 3 peers in both directions: {:.1} MB", bytes as f64 / 1e6);
    assert!(bytes < 50_000_000, "{bytes} bytes");
    assert_eq!(recorder.trouble(), None);
}

#[test]
fn figures_are_those_of_the_status_and_survive_a_restart() {
    let dir = Dir::new("restart");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    for second in 0..=180 {
        recorder.record((START + second) * 1000, &answer(site(second, 1)));
    }
    recorder.write(START + 180);
    drop(recorder);
    // Minutes that end while nothing runs are computed at the next start.
    let mut recorder = Recorder::open(&dir.file(), START + 400).unwrap();
    recorder.record((START + 400) * 1000, &answer(site(400, 1)));
    recorder.write(START + 400);
    let rows = recorder.store().rows(&to(0), Range::Hour, START + 400).unwrap();
    assert_eq!(rows.len(), 182);
    let row = rows[100];
    let expected = Sample {
        mode: Some(Mode::DelayControl),
        trouble: false,
        limit_bps: Some(24_000_100.0),
        rate_bps: Some(8_000.0),
        arrived_bps: Some(22_000_100.0),
        here_ms: Some(30.25),
        here_high_ms: Some(30.25),
        there_ms: Some(2.125),
        there_low_ms: Some(1.0),
        small_ms: Some(1.5),
        small_high_ms: Some(4.0),
        large_ms: Some(90.0),
        large_high_ms: Some(120.5),
        classes_ms: [None, Some(80.0), None, None],
        there_high_ms: Some(7.5),
        lost: Some(0.01),
        packets: Some(1.0),
        dropped: Some(2.0),
        marked: None,
        refused: Some(0.0),
    };
    assert_eq!(row, Row { at: START + 100, sample: expected });
    let minutes = recorder.store().rows(&to(0), Range::Day, START + 400).unwrap();
    let at: Vec<u64> = minutes.iter().map(|row| row.at - START).collect();
    assert_eq!(at, [0, 60, 120, 180]);
    let mean = minutes[1].sample;
    // Seconds 60 to 119: 40 in open mode and 20 not; limits from 24 000 060 to 24 000 119.
    assert_eq!((mean.mode, mean.limit_bps), (Some(Mode::Open), Some(24_000_089.5)));
    assert_eq!((mean.dropped, mean.there_high_ms), (Some(120.0), Some(7.5)));
    // The decision was known, so it is not logged again.
    assert_eq!(kinds(&recorder), ["box_seen", "mode_changed", "box_seen"]);
}

#[test]
fn no_decision_is_lost_silently() {
    let dir = Dir::new("gap");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    let mut status = site(100, 1);
    let mut say = |recorder: &mut Recorder, second: u64, numbers: &[u64], run: u64| {
        status.run = run;
        status.sends[0].decisions = numbers.iter().map(|n| decision(*n, 0.5)).collect();
        recorder.record((START + second) * 1000, &answer(status.clone()));
    };
    // The box ran before: the first ones are gone.
    say(&mut recorder, 1, &[12, 11], 1);
    say(&mut recorder, 2, &[13, 12, 11], 1);
    // More came at once than it keeps.
    say(&mut recorder, 3, &[30, 29], 1);
    // Another process counts anew.
    say(&mut recorder, 4, &[2, 1], 2);
    recorder.write(START + 5);
    let told: Vec<_> = recorder
        .store()
        .events(0, true, 100)
        .unwrap()
        .into_iter()
        .filter(|event| event.direction.is_some())
        .map(|event| (event.number, event.values.get("missed").cloned()))
        .collect();
    let missed = |n| (None, Some(Value::Number(n)));
    let seen = |n| (Some(n), None);
    let expected = [
        missed(10),
        seen(11),
        seen(12),
        seen(13),
        missed(15),
        seen(29),
        seen(30),
        seen(1),
        seen(2),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_full_disk_is_said_and_the_history_goes_on_when_there_is_room() {
    let dir = Dir::new("full");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    recorder.record(START * 1000, &answer(site(0, 4)));
    recorder.write(START);
    recorder.store().limit_pages(recorder.store().pages());
    for second in 1..=600 {
        recorder.record((START + second) * 1000, &answer(site(second, 4)));
        let (rows, events) = recorder.waiting();
        assert!(rows <= 8 * 131 && events <= MAX_EVENTS, "{rows} rows, {events} events");
    }
    let trouble = recorder.trouble().cloned().unwrap();
    assert!(trouble.why.contains("full") && trouble.lost > 0, "{trouble:?}");
    recorder.store().limit_pages(1_000_000);
    recorder.write(START + 601);
    recorder.write(START + 602);
    assert_eq!((recorder.trouble(), recorder.lost()), (None, trouble.lost));
    let last = recorder.store().events(0, false, 1).unwrap().remove(0);
    assert_eq!(last.kind, kind::HISTORY_LOST);
    assert!(last.text.contains(&format!("{} rows are lost", trouble.lost)), "{}", last.text);
    let rows = recorder.store().rows(&to(0), Range::Hour, START + 600).unwrap();
    assert!(rows.last().is_some_and(|row| row.at == START + 600), "what waited is written");
}

#[test]
fn a_damaged_or_foreign_file_is_put_aside() {
    let dir = Dir::new("broken");
    let path = dir.file();
    let broken = crate::store::beside(&path, ".broken");
    // What a crash of the file system can leave, and what another program may have left.
    for content in [&b"no database at all, but long enough to be one"[..], &[0xff; 10_000]] {
        fs::write(&path, content).unwrap();
        let mut recorder = Recorder::open(&path, START).unwrap();
        recorder.record(START * 1000, &answer(site(1, 1)));
        recorder.write(START);
        assert_eq!(fs::read(&broken).unwrap(), content);
        assert_eq!(recorder.store().rows(&to(0), Range::Hour, START).unwrap().len(), 1);
        assert!(kinds(&recorder).contains(&kind::HISTORY_REPLACED.to_owned()));
    }
    // Pages in the middle are damaged while it is in use.
    let mut recorder = Recorder::open(&path, START).unwrap();
    for second in 0..200 {
        recorder.record((START + second) * 1000, &answer(site(second, 3)));
    }
    drop(recorder);
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[4096..length].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let mut recorder = Recorder::open(&path, START + 200).unwrap();
    recorder.record((START + 200) * 1000, &answer(site(200, 3)));
    recorder.write(START + 200);
    assert_eq!(recorder.trouble(), None);
    assert!(kinds(&recorder).contains(&kind::HISTORY_REPLACED.to_owned()));
    assert!(matches!(Recorder::open(&path, START), Err(StoreError::InUse(_))));
}

#[test]
fn a_file_that_is_damaged_later_is_replaced() {
    let dir = Dir::new("later");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    recorder.record(START * 1000, &answer(site(1, 1)));
    recorder.write(START);
    let source = rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        None,
    );
    recorder.fail(START + 1, &StoreError::Database { path: dir.file(), source });
    recorder.record((START + 2) * 1000, &answer(site(2, 1)));
    recorder.write(START + 2);
    assert_eq!(recorder.trouble(), None);
    assert_eq!(recorder.store().path(), dir.file());
    assert_eq!(recorder.store().rows(&to(0), Range::Hour, START + 2).unwrap().len(), 1);
}

#[test]
fn without_a_place_for_the_file_the_history_is_in_memory() {
    let dir = Dir::new("nowhere");
    let mut recorder = Recorder::open(&dir.0.join("no/such/history.db"), START).unwrap();
    recorder.record(START * 1000, &answer(site(1, 1)));
    recorder.write(START);
    assert_eq!(recorder.store().rows(&to(0), Range::Hour, START).unwrap().len(), 1);
    assert!(recorder.trouble().is_some(), "and it says so");
}

#[test]
fn boxes_and_troubles_come_and_go() {
    let dir = Dir::new("boxes");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    let mut wrong = site(1, 1);
    wrong.sends[0].trouble = Some("no answer; is the key the same?".to_owned());
    wrong.sends[0].decisions.clear();
    let mut right = site(3, 1);
    right.sends[0].decisions.clear();
    recorder.record(START * 1000, &answer(wrong.clone()));
    assert_eq!(recorder.live()[0].verdict.state, State::Trouble);
    recorder.record((START + 1) * 1000, &answer(wrong));
    recorder.record((START + 2) * 1000, &answer(right));
    let hangs = Err(io::Error::other("it does not answer"));
    let mut answers = vec![Answer { process: 7, status: hangs }];
    recorder.record((START + 3) * 1000, &answers);
    recorder.record((START + 4) * 1000, &answers);
    answers.clear();
    recorder.record((START + 5) * 1000, &answers);
    recorder.write(START + 5);
    let gone = &recorder.live()[0];
    assert_eq!((gone.verdict.state, recorder.live().len()), (State::Gone, 2));
    let expected = ["box_seen", "trouble_began", "trouble_over", "box_silent", "box_gone"];
    assert_eq!(kinds(&recorder), expected);
}

#[test]
fn too_many_bundles_are_counted() {
    let dir = Dir::new("many");
    let mut recorder = Recorder::open(&dir.file(), START).unwrap();
    recorder.record(START * 1000, &answer(site(1, 40)));
    recorder.write(START);
    assert_eq!(recorder.without_history(), 80 - MAX_SERIES);
    assert_eq!(recorder.live().len(), 80, "the present is shown of all");
}
