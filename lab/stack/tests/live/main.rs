//! Tests the load and the study in network namespaces of this machine. It needs root. Tests whose
//! names begin with `measured` compare rates, so they need a quiet machine.
//!
//! The test of a killed run starts this program again, so it handles that name.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use forebay_stack::measure::{Outcome, Stage};
use forebay_stack::point::Point;
use forebay_stack::study::{Families, Study, Told, can_lose};
use forebay_stack::{Error, Interrupt};
use forebay_test_support::{Need, skip_named};
use libtest_mimic::{Arguments, Trial};

/// The directory in which runs note what they change.
const NOTES: &str = "/run/forebay-stack";

/// Lists tests of a place by their names.
macro_rules! tests {
    ($place:literal: $($test:ident),* $(,)?) => {
        [$(of_root(concat!($place, "::", stringify!($test)), $test)),*]
    };
}

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
    let mut arguments = Arguments::from_args();
    // A test looks for what runs leave, so the tests of one process take turns.
    arguments.test_threads.get_or_insert(1);
    let live = tests!["live":
        counts_add_up_and_nothing_is_left,
        lost_packets_are_sent_again,
        an_interrupt_leaves_nothing,
        a_setting_that_the_kernel_lacks_is_named,
        a_killed_run_is_reclaimed,
    ];
    // The load and its receivers share the cores with all that runs beside them.
    let measured = tests!["measured":
        flows_keep_to_the_rate_of_the_link,
        flows_keep_to_their_pacing_rate,
    ];
    libtest_mimic::run(&arguments, live.into_iter().chain(measured).collect()).exit_code()
}

/// A test that needs root.
fn of_root(name: &'static str, test: fn()) -> Trial {
    Trial::test(name, move || {
        match forebay_lab::netns::usable() {
            Ok(()) => test(),
            Err(e) => skip_named(name, Need::Root, &e.to_string()),
        }
        Ok(())
    })
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

/// The notes and namespaces that the runs of a process made.
#[derive(Default)]
struct Made(BTreeSet<PathBuf>);

impl Made {
    /// Adds what the runs of the process `pid` have now.
    fn look(&mut self, pid: u32) {
        for run in fs::read_dir(NOTES).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let owner = fs::read_to_string(run.join("lock")).unwrap_or_default();
            if owner.split_whitespace().last() != Some(&pid.to_string()) {
                continue;
            }
            let id = run.file_name().unwrap().to_string_lossy().into_owned();
            let namespaces = ["s", "r"].map(|end| format!("/run/netns/fb-{id}-{end}").into());
            self.0.extend(namespaces.into_iter().filter(|namespace: &PathBuf| namespace.exists()));
            self.0.insert(run);
        }
    }

    fn left(&self) -> Vec<&PathBuf> {
        self.0.iter().filter(|path| path.exists()).collect()
    }

    /// Asserts that notes and two namespaces of one run were there, and are gone.
    fn assert_seen_and_gone(&self) {
        assert_eq!((self.0.len(), self.left()), (3, Vec::new()), "{:?}", self.0);
    }
}

fn counts_add_up_and_nothing_is_left() {
    let mut made = Made::default();
    let result = study(vec![point(300)]).run(&Interrupt::default(), &mut |_| {
        made.look(std::process::id());
        Ok(())
    });
    let outcomes = result.unwrap().outcomes;
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
    assert!(m.goodput_mbps > 0.0, "{m:?}");
    assert!(m.segments_per_s > 0.0 && m.segment_bytes > 66.0 && m.packets_per_s > 0.0);
    assert!(m.cpu.all.busy() > 0.0 && m.rtt_ms.p50 > 0.0 && m.cwnd > 0.0);
    made.assert_seen_and_gone();
}

fn flows_keep_to_the_rate_of_the_link() {
    let outcomes = run(&study(vec![point(300)])).unwrap();
    // HTB lets its burst through beyond its rate.
    let goodput = outcomes[0].measured.goodput_mbps;
    assert!(goodput > 0.0 && goodput < 1.2 * 200.0, "{goodput}");
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
    let mut made = Made::default();
    let interrupt = Interrupt::default();
    let result = study(vec![point(200)]).run(&interrupt, &mut |told| {
        made.look(std::process::id());
        if let Told::Stage(_, _, Stage::Settling) = told {
            interrupt.raise();
        }
        Ok(())
    });
    assert!(matches!(result, Err(Error::Interrupted)));
    made.assert_seen_and_gone();
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
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.arg("one-run").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "measuring\n");
    let mut made = Made::default();
    made.look(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    run(&study(vec![point(5)])).unwrap();
    // The kernel ends a namespace when its last socket is closed, a moment later.
    for _ in 0..3_000 {
        if made.left().is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    made.assert_seen_and_gone();
}
