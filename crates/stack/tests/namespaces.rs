//! Tests the load and the study in network namespaces of this machine. It needs root.
//!
//! The test of a killed run starts this program again, so it handles that name.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use forebay_stack::measure::{Outcome, Stage};
use forebay_stack::point::Point;
use forebay_stack::study::{Families, Study, Told, can_lose};
use forebay_stack::{Error, Interrupt};
use forebay_test_support::{Need, is_root, skip_named};

/// The directory in which runs note what they change.
const NOTES: &str = "/run/forebay-stack";

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("one-run") {
        let study = Study { measure: Duration::from_secs(600), ..study(vec![point(50)]) };
        let _ = study.run(&Interrupt::default(), &mut |told| {
            if let Told::Stage(_, _, Stage::Measuring) = told {
                println!("measuring");
            }
            Ok(())
        });
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 6] = [
        ("counts_add_up_and_nothing_is_left", counts_add_up_and_nothing_is_left),
        ("flows_keep_to_their_pacing_rate", flows_keep_to_their_pacing_rate),
        ("lost_packets_are_sent_again", lost_packets_are_sent_again),
        ("an_interrupt_leaves_nothing", an_interrupt_leaves_nothing),
        ("a_setting_that_the_kernel_lacks_is_named", a_setting_that_the_kernel_lacks_is_named),
        ("a_killed_run_is_reclaimed", a_killed_run_is_reclaimed),
    ];
    let wanted: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w));
    for (name, test) in tests.into_iter().filter(|(name, _)| is_wanted(name)) {
        if !is_root() {
            let error = run(&study(vec![point(1)])).unwrap_err().to_string();
            assert!(error.contains("sudo"), "{error}");
            skip_named(name, Need::Root, &error);
            continue;
        }
        println!("test {name} ...");
        test();
    }
    ExitCode::SUCCESS
}

fn point(flows: u32) -> Point {
    Point {
        series: "test".to_owned(),
        flows,
        rate_mbps: 200.0,
        qdisc: "pfifo".to_owned(),
        limit: 1000,
        congestion: "cubic".to_owned(),
        loss: 0.0,
        delay_ms: 0.0,
        paced: None,
        offload: true,
        tso_rtt_log: None,
        coalesce_us: None,
    }
}

fn study(points: Vec<Point>) -> Study {
    Study {
        points,
        families: Families::Both,
        sources: 2,
        settle: Duration::from_millis(500),
        measure: Duration::from_secs(1),
        threads: 2,
        tune: false,
        functions: false,
    }
}

fn run(study: &Study) -> Result<Vec<Outcome>, Error> {
    Ok(study.run(&Interrupt::default(), &mut |_| Ok(()))?.outcomes)
}

/// The namespaces of this program's kind, and the notes of runs.
fn left() -> BTreeSet<String> {
    let names = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let namespaces = names("/run/netns").into_iter().filter(|name| name.starts_with("fb-"));
    namespaces.chain(names(NOTES)).collect()
}

fn counts_add_up_and_nothing_is_left() {
    let before = left();
    let outcomes = run(&study(vec![point(300)])).unwrap();
    let m = &outcomes[0].measured;
    assert_eq!((m.connected, m.lost, m.rates.count), (300, 0, 300));
    // Everything that was sent has arrived, since the run waits for what is under way.
    assert!(m.sent > 0);
    assert_eq!(m.received, Some(m.sent));
    // The goodput that receivers count is what the senders' kernel has had acknowledged, but for
    // what is under way: the queue, and the data that flows may hold.
    let acknowledged = m.rates.mean * 300.0 / 1e6;
    let under_way = (1000 * 65_536 + 300 * u64::from(point(300).unsent())) as f64 * 8.0 / 1e6;
    assert!((m.goodput_mbps - acknowledged).abs() <= under_way, "{m:?}");
    // HTB lets its burst through beyond its rate.
    assert!(m.goodput_mbps > 0.0 && m.goodput_mbps < 1.2 * 200.0, "{}", m.goodput_mbps);
    assert!(m.segments_per_s > 0.0 && m.segment_bytes > 66.0 && m.packets_per_s > 0.0);
    assert!(m.cpu.all.busy() > 0.0 && m.rtt_ms.p50 > 0.0 && m.cwnd > 0.0);
    let new: Vec<_> = left().difference(&before).filter(|name| *name != "lock").cloned().collect();
    assert_eq!(new, [] as [String; 0]);
}

fn flows_keep_to_their_pacing_rate() {
    let paced = Point { paced: Some(0.25), congestion: "reno".to_owned(), ..point(100) };
    let outcomes = run(&study(vec![paced])).unwrap();
    let m = &outcomes[0].measured;
    // A quarter of 200 Mbit/s; before a pause the kernel lets a few packets more through.
    assert!(m.goodput_mbps < 1.5 * 50.0, "{}", m.goodput_mbps);
    assert!(m.goodput_mbps > 0.0);
}

fn lost_packets_are_sent_again() {
    if let Err(e) = can_lose() {
        skip_named("lost_packets_are_sent_again", Need::Program, &e.to_string());
        return;
    }
    let outcomes = run(&study(vec![Point { loss: 0.2, ..point(100) }])).unwrap();
    let m = &outcomes[0].measured;
    assert!(m.goodput_mbps > 0.0 && m.retransmitted > 0.01, "{m:?}");
}

fn an_interrupt_leaves_nothing() {
    let before = left();
    let interrupt = Interrupt::default();
    let result = study(vec![point(200)]).run(&interrupt, &mut |told| {
        if let Told::Stage(_, _, Stage::Settling) = told {
            interrupt.raise();
        }
        Ok(())
    });
    assert!(matches!(result, Err(Error::Interrupted)));
    let new: Vec<_> = left().difference(&before).filter(|name| *name != "lock").cloned().collect();
    assert_eq!(new, [] as [String; 0]);
}

fn a_setting_that_the_kernel_lacks_is_named() {
    let none = Point { congestion: "none".to_owned(), ..point(5) };
    let error = run(&study(vec![none])).unwrap_err().to_string();
    assert!(error.contains("congestion control none") && error.contains("tcp_none"), "{error}");
    let none = Point { qdisc: "none".to_owned(), ..point(5) };
    let error = run(&study(vec![none])).unwrap_err().to_string();
    assert!(error.contains("tc qdisc add") && error.contains("none"), "{error}");
}

fn a_killed_run_is_reclaimed() {
    let before = left();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.arg("one-run").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "measuring\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let new = |before: &BTreeSet<String>| {
        left().difference(before).filter(|name| *name != "lock").count()
    };
    // Two namespaces and the notes.
    assert_eq!(new(&before), 3);
    run(&study(vec![point(5)])).unwrap();
    // The kernel ends a namespace when its last socket is closed, a moment later.
    for _ in 0..100 {
        if new(&before) == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{:?}", left());
}
