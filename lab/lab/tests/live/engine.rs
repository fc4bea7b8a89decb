//! The engine with stand-ins for the boxes: all traffic, queues, interrupts, panics and kills.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::thread;
use std::time::Duration;

use forebay_lab::engine::{Engine, EngineError, Interrupt, Job, Phase};
use forebay_lab::netns::Dataplane;
use forebay_lab::results::Run;
use forebay_lab::scenario::{self, Fault, FaultKind, Maker, Process, Queue, QueueKind};
use forebay_records::packet_log::Fate;
use forebay_test_support::traces::Traces;
use forebay_units::Nanos;

use crate::{run, short, stand_in, with_stand_ins};

pub(crate) fn all_traffic_flows_and_nothing_is_left() {
    for ip in [4, 6] {
        let scenario = short(ip);
        let mut traces = Traces::default();
        let mut phases = Vec::new();
        let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
        let run = with_stand_ins(Dataplane::User)
            .run(&job, &Interrupt::default(), &mut |progress| {
                traces.look(std::process::id());
                if phases.last() != Some(&progress.phase) {
                    phases.push(progress.phase);
                }
            })
            .unwrap();
        assert_eq!(phases, [Phase::SetUp, Phase::WarmUp, Phase::Measure, Phase::Collect]);
        traces.assert_seen_and_gone(1);

        assert_eq!((run.end - run.start).0, scenario.duration.0);
        assert!(!run.requests.is_empty());
        assert!(run.requests.iter().any(|r| r.end.is_some()), "answers came");
        let received = |name: &str| -> u64 {
            run.progress.iter().filter(|p| p.traffic == name).map(|p| p.bytes).sum()
        };
        for name in ["cubic", "bbr", "quic", "prague", "cbr"] {
            assert!(received(name) > 0, "{name}");
        }
        let rtts: Vec<_> = run.round_trips.iter().filter_map(|r| Some(r.end? - r.start)).collect();
        assert!(!rtts.is_empty() && rtts.iter().all(|rtt| *rtt >= 20_000_000), "{rtts:?}");
        let sent = run.bottleneck.iter().filter(|r| r.fate == Fate::Sent);
        assert!(sent.clone().any(|r| r.l4s) && sent.clone().any(|r| !r.l4s), "{ip}: both kinds");
        let bytes: u64 = sent.map(|r| r.len.0).sum();
        let most = scenario.path.rate.bytes_in(scenario.length() + Nanos::from_secs(1)).0;
        assert!(bytes > 0 && bytes < most, "{bytes} B at the bottleneck's rate in a second or so");
        let sources: BTreeSet<_> = run.bottleneck.iter().map(|r| r.source).collect();
        assert_eq!(sources, [0, 2].into(), "the bundle's and the cross traffic's");
        assert_eq!(run.bundle_source, Some(0), "there is cross traffic");
        let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
        assert_eq!(hops, ["sendbox", "link"]);
        let link = &run.hops[1];
        assert!(link.received > 100, "{link:?}");
        assert_eq!(link.received, link.sent + link.policy_drops + link.queued + link.lost);
        assert_eq!(run.ticks.len(), 1);
    }
}

pub(crate) fn sites_have_boxes_of_their_own() {
    let text = include_str!("short.toml").replacen("[path]", "sites = 3\n[path]", 1);
    let text = text.replacen("name = \"cubic\"", "name = \"cubic\"\nsite = 3", 1);
    let text = text.replacen("name = \"quic\"", "name = \"quic\"\nsite = 2", 1);
    let scenario = scenario::parse("short.toml".as_ref(), &text).unwrap().cells.remove(0);
    let mut traces = Traces::default();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let run = with_stand_ins(Dataplane::User)
        .run(&job, &Interrupt::default(), &mut |_| traces.look(std::process::id()));
    let run = run.unwrap();
    traces.assert_seen_and_gone_with(1, 10);
    let sources: BTreeSet<_> = run.bottleneck.iter().map(|r| r.source).collect();
    assert_eq!(sources, [0, 2, 3, 4].into(), "site A's, the cross traffic's, and the other sites'");
    let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
    assert_eq!(hops, ["sendbox", "sendbox2", "sendbox3", "link"]);
    assert_eq!(run.ticks.len(), 3);
    for name in ["cubic", "bbr", "quic", "cbr"] {
        assert!(run.progress.iter().any(|p| p.traffic == name && p.bytes > 0), "{name}");
    }
}

/// CoDel marks packets of hosts with ECN that it would drop otherwise.
pub(crate) fn hosts_that_ask_for_ecn_are_marked() {
    let link = |ecn: bool| {
        let text = include_str!("marks.toml").replace("ecn = false", &format!("ecn = {ecn}"));
        let scenario = scenario::parse("marks.toml".as_ref(), &text).unwrap().cells.remove(0);
        let mut run = run(&scenario, &Interrupt::default()).unwrap();
        let answered = run.requests.iter().filter(|request| request.end.is_some()).count();
        assert!(answered > 4, "each of four clients asks again: {answered}");
        let link = run.hops.remove(1);
        (link.marked.unwrap(), link.policy_drops)
    };
    // Handshakes do not allow marks (RFC 3168 section 6.1.1), so some of them may still be dropped.
    let (marked, dropped) = link(true);
    assert!(marked > dropped, "{marked} marked, {dropped} dropped");
    let (marked, dropped) = link(false);
    assert!(marked == 0 && dropped > 0, "{marked} marked, {dropped} dropped");
}

/// Uses HTB and a plain FIFO, which every kernel has.
pub(crate) fn a_queue_of_the_kernel_s_is_accounted_for() {
    let mut scenario = short(4);
    let limit = "20 packets".parse().unwrap();
    scenario.arms[0].queue = Queue { by: Maker::Kernel, ..Queue::plain(QueueKind::Fifo, limit) };
    let mut traces = Traces::default();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let run = with_stand_ins(Dataplane::User)
        .run(&job, &Interrupt::default(), &mut |_| traces.look(std::process::id()));
    let run = run.unwrap();
    traces.assert_seen_and_gone(1);
    let count = |fate| run.bottleneck.iter().filter(|r| r.fate == fate).count() as u64;
    let link = &run.hops[1];
    assert!(link.policy_drops > 0 && link.sent > 100, "{link:?}");
    // The kernel's own count, and what was seen to go in and not to come out.
    assert_eq!(link.policy_drops, count(Fate::Dropped));
    assert_eq!(link.received, link.sent + link.policy_drops + link.queued, "{link:?}");
    assert_eq!(link.lost, 0);
    let sources: BTreeSet<_> = run.bottleneck.iter().map(|r| r.source).collect();
    assert_eq!(sources, [0, 2].into(), "the bundle's and the cross traffic's");
    assert!(run.bottleneck.iter().any(|r| r.fate == Fate::Sent && r.sojourn > Nanos::ZERO));
}

/// Some kernels have no Cake. The error names it before anything is set up.
pub(crate) fn a_queue_that_the_kernel_lacks_is_named() {
    let mut scenario = short(4);
    let limit = "1000 packets".parse().unwrap();
    scenario.arms[0].queue = Queue { by: Maker::Kernel, ..Queue::plain(QueueKind::Cake, limit) };
    let has = Command::new("unshare")
        .args(["-n", "tc", "qdisc", "add", "dev", "lo", "root", "cake"])
        .status()
        .unwrap();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let checked = with_stand_ins(Dataplane::User).check(&job);
    assert_eq!(checked.is_ok(), has.success(), "{checked:?}");
    if let Err(e) = checked {
        let told = e.to_string();
        assert!(told.contains("discipline cake") && told.contains("--engine uml"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

pub(crate) fn a_killed_box_is_started_again() {
    let mut scenario = short(4);
    let fault = |at, back: Option<u64>| Fault {
        at: Nanos::from_millis(at),
        kind: FaultKind::Killed {
            process: Process::Receivebox,
            back: back.map(Nanos::from_millis),
        },
    };
    scenario.faults = vec![fault(100, Some(400)), fault(900, None)];
    let mut traces = Traces::default();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let run = with_stand_ins(Dataplane::User)
        .run(&job, &Interrupt::default(), &mut |_| traces.look(std::process::id()));
    let run = run.unwrap();
    traces.assert_seen_and_gone(1);
    let begin = run.start - scenario.warmup;
    let at = |ms| (begin + Nanos::from_millis(ms)).0;
    let [first, second] = &run.faults[..] else { panic!("{:?}", run.faults) };
    assert_eq!((first.process.as_str(), second.process.as_str()), ("receivebox", "receivebox"));
    assert!(first.killed >= at(100) && first.ready.is_some_and(|t| t >= at(400)), "{first:?}");
    assert!(second.killed >= at(900) && second.ready.is_none(), "{second:?}");
}

pub(crate) fn an_interrupt_leaves_nothing() {
    let scenario = short(4);
    let interrupt = Interrupt::default();
    let mut traces = Traces::default();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let result = with_stand_ins(Dataplane::User).run(&job, &interrupt, &mut |progress| {
        traces.look(std::process::id());
        if progress.phase == Phase::WarmUp {
            interrupt.raise();
        }
    });
    assert!(matches!(result, Err(EngineError::Interrupted)));
    traces.assert_seen_and_gone(1);
}

pub(crate) fn a_panic_leaves_nothing() {
    let scenario = short(4);
    let mut traces = Traces::default();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        with_stand_ins(Dataplane::User).run(&job, &Interrupt::default(), &mut |progress| {
            traces.look(std::process::id());
            assert!(progress.phase == Phase::SetUp, "a panic that the test wants");
        })
    }));
    assert!(result.is_err());
    traces.assert_seen_and_gone(1);
}

pub(crate) fn two_runs_do_not_meet() {
    let scenario = short(4);
    thread::scope(|scope| {
        let runs = [(); 2].map(|()| scope.spawn(|| run(&scenario, &Interrupt::default())));
        let [first, second] = runs.map(|run| run.join().unwrap().unwrap());
        let asked = |run: &Run| -> Vec<_> {
            run.requests.iter().map(|r| (r.id, r.connection, r.size)).collect()
        };
        assert_eq!(asked(&first), asked(&second), "the same seed asks for the same");
    });
}

fn one_run() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("one-run");
    command
}

pub(crate) fn a_process_that_ends_is_named() {
    let output = one_run().env(stand_in::FAIL, "1").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("sendbox ended early (exit status: 1)"), "{said}");
    assert!(said.contains("as it was told to fail"), "{said}");
}

pub(crate) fn a_killed_run_is_reclaimed() {
    let mut killed = one_run().spawn().unwrap();
    let mut traces = Traces::default();
    while traces.processes() < 5 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it could be killed");
        thread::sleep(Duration::from_millis(5));
        traces.look(killed.id());
    }
    // SIGKILL: nothing can clean up.
    killed.kill().unwrap();
    killed.wait().unwrap();
    traces.assert_processes_end();
    run(&short(4), &Interrupt::default()).unwrap();
    traces.assert_seen_and_gone(1);
}
