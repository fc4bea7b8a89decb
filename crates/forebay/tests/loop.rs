//! Tests the whole control loop with the real command, its boxes and a real kernel, and judges the
//! records that a run keeps. Some need root, some a kernel for virtual time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "../../lab/tests/netns/traces.rs"]
mod traces;

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use common::Dir;
use forebay_lab::analysis::{Analysis, Estimates};
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_lab::results::{Run, Tick, store};
use forebay_lab::scenario::{self, FaultKind, Scenario};
use forebay_lab::uml;
use forebay_test_support::{Need, has_root, is_root, skip};
use traces::Traces;

const SECOND: u64 = 1_000_000_000;

/// Makes tests run one at a time: they measure, and share the machine's cores.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn lab_run(engine: &str, file: &Path, out: &Path) -> Child {
    start(command_for(engine, file, out))
}

fn command_for(engine: &str, file: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["lab", "run", "--engine", engine]).arg(file).arg("--out").arg(out);
    command
}

/// Watches what `child` sets up until `is_over`, for a minute at most.
fn watch(child: &mut Child, traces: &mut Traces, is_over: impl Fn(&mut Child, &Traces) -> bool) {
    for _ in 0..3_000 {
        if is_over(child, traces) {
            return;
        }
        traces.look(child.id());
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    panic!("it took more than a minute");
}

fn end(mut child: Child, traces: &mut Traces) -> Output {
    watch(&mut child, traces, |child, _| child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

fn carried(name: &str) -> PathBuf {
    let file = format!("{}/../../experiments/bundler/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    PathBuf::from(file)
}

/// Runs an experiment of the repository, which has a single run, in real time, and checks what
/// holds for every run. Without root it reports a skip.
#[track_caller]
fn run(name: &str) -> Option<(Scenario, Run)> {
    if !has_root() {
        return None;
    }
    let _turn = turn();
    let dir = Dir::new(name);
    let file = carried(name);
    let mut traces = Traces::default();
    let output = end(lab_run("netns", &file, &dir.0), &mut traces);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    traces.assert_seen_and_gone(1);
    let (run, _) = only_run(&dir);
    Some((scenario::load(&file).unwrap().cells.remove(0), run))
}

/// Runs such an experiment in virtual time, where other load of this machine does not affect the
/// figures. Without a kernel for that it reports a skip.
#[track_caller]
fn run_in_virtual_time(name: &str, dataplane: &str) -> Option<(Run, Analysis)> {
    match uml::prepare(&Interrupt::default()) {
        Ok(()) => {}
        Err(EngineError::Unfit(why)) => {
            skip(Need::Kernel, &why);
            return None;
        }
        Err(e) => panic!("{e}"),
    }
    let dir = Dir::new(&format!("{name}-{dataplane}"));
    let mut command = command_for("uml", &carried(name), &dir.0);
    command.args(["--dataplane", dataplane]);
    let output = start(command).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(only_run(&dir))
}

/// The single run that is stored in `dir`.
fn only_run(dir: &Dir) -> (Run, Analysis) {
    let kept = store::files(&dir.0).unwrap();
    let [file_of_run] = &kept[..] else { panic!("{kept:?}") };
    let run = store::load(file_of_run).unwrap();
    let analysis = Analysis::of(&run);
    let no_violation: [String; 0] = [];
    assert_eq!(analysis.summary.conservation.violations, no_violation);
    (run, analysis)
}

/// The 95th percentile of the estimates' errors, at most, in ms and Mbit/s.
const EXACT: [f64; 2] = [0.3, 0.5];
/// The same with offloads on, where all segments of a super-packet leave at one time.
const OF_SUPER_PACKETS: [f64; 2] = [0.8, 1.0];

/// Checks that eight of ten estimates are as accurate as the Bundler prototype's (EuroSys '21,
/// section 4.5), and that 95 of 100 are within `most`.
fn assert_estimates(name: &str, dataplane: &str, most: [f64; 2]) {
    let Some((run, analysis)) = run_in_virtual_time(name, dataplane) else { return };
    let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
    assert_eq!(hops, ["sendbox", "link"]);
    assert_eq!((Estimates::RTT_LIMIT, Estimates::RATE_LIMIT), (1.2, 4.0), "ms and Mbit/s");
    let estimates = analysis.summary.estimates.unwrap();
    for (differences, most) in [&estimates.rtt_ms, &estimates.receive_rate_mbps].iter().zip(most) {
        let d = differences.as_ref().unwrap();
        assert!(d.samples > 50 && d.within >= 0.8 && d.absolute_p95 < most, "{estimates:#?}");
    }
}

#[test]
fn estimates_hold_over_ipv6() {
    assert_estimates("ipv6", "user", EXACT);
    assert_estimates("ipv6", "kernel", OF_SUPER_PACKETS);
}

#[test]
fn estimates_hold_for_quic() {
    assert_estimates("quic", "user", EXACT);
    assert_estimates("quic", "kernel", OF_SUPER_PACKETS);
}

#[test]
fn two_sites_share_a_bottleneck_and_neither_waits_there() {
    for dataplane in ["user", "kernel"] {
        assert_sites_share(dataplane);
    }
}

fn assert_sites_share(dataplane: &str) {
    let Some((run, analysis)) = run_in_virtual_time("sites", dataplane) else { return };
    let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
    assert_eq!(hops, ["sendbox", "sendbox2", "link"]);
    let bytes = |traffic: &str| -> u64 {
        let measured = run.progress.iter().filter(|p| p.time > run.start.0);
        measured.filter(|p| p.traffic == traffic).map(|p| p.bytes).sum()
    };
    let (first, second) = (bytes("first") as f64, bytes("second") as f64);
    let share = first / (first + second);
    assert!((0.35..0.65).contains(&share), "the first has {share} of it");
    for bundle in ["b", "b2"] {
        let own = run.ticks.iter().filter(|t| t.bundle == bundle && t.time > run.start.0);
        let controlled = own.clone().filter(|t| t.mode == "delay control").count();
        assert!(controlled * 10 > own.count() * 9 && controlled > 0, "{bundle}: {controlled}");
    }
    let there = analysis.summary.bottleneck_queue_ms.unwrap().p50;
    assert!(there < 10.0, "{dataplane}: {there} ms there");
    // Waits in the kernel's queues are not recorded packet by packet.
    if let Some(here) = analysis.summary.sendbox_queue_ms {
        assert!(here.p50 > 10.0, "{dataplane}: {here:?}");
    } else {
        assert_eq!(dataplane, "kernel");
        let waits = run.ticks.iter().filter(|t| t.time > run.start.0 && t.backlog > 0).count();
        assert!(waits * 10 > run.ticks.len() * 5, "{waits} of {}", run.ticks.len());
    }
}

#[test]
fn a_dead_receivebox_opens_the_bundle_and_a_new_one_closes_it() {
    let Some((scenario, run)) = run("receivebox-death") else { return };
    let [fault] = &run.faults[..] else { panic!("{:?}", run.faults) };
    let (killed, ready) = (fault.killed, fault.ready.unwrap());
    // The receivebox was started again some time before it was ready.
    let begin = run.start - scenario.warmup;
    let FaultKind::Killed { back: Some(back), .. } = scenario.faults[0].kind else {
        panic!("{:?}", scenario.faults)
    };
    let again = (begin + back).0;
    let end = run.end.0;

    let assert_all = |range: Range<u64>, is_so: fn(&Tick) -> bool| {
        let ticks: Vec<_> = run.ticks.iter().filter(|tick| range.contains(&tick.time)).collect();
        assert!(!ticks.is_empty(), "no ticks in {range:?}");
        let other = ticks.iter().find(|tick| !is_so(tick));
        assert!(other.is_none(), "killed at {killed}, ready at {ready}: {other:?}");
    };
    let is_open = |tick: &Tick| tick.mode == "open" && tick.rate.is_none();
    let is_controlled = |tick: &Tick| tick.mode == "delay control" && tick.rate.is_some();
    assert_all(killed - SECOND..killed, is_controlled);
    assert_all(killed + SECOND..again, is_open);
    assert_all(ready + 3 * SECOND..end, is_controlled);

    // In Mbit/s: all flows of all traffic, or of one.
    let goodput = |range: Range<u64>, of: Option<(&str, u32)>| {
        let within = run.progress.iter().filter(|p| range.contains(&p.time));
        let wanted = within.filter(|p| of.is_none_or(|of| of == (p.traffic.as_str(), p.flow)));
        let bytes: u64 = wanted.map(|p| p.bytes).sum();
        bytes as f64 * 8e3 / (range.end - range.start) as f64
    };
    let half = run.rate.as_mbps_f64() / 2.0;
    let without = goodput(killed + SECOND..again, None);
    assert!(without > half, "traffic ran on without the receivebox: {without} Mbit/s");
    for flow in 0..4 {
        let after = goodput(ready + SECOND..end, Some(("backlogged", flow)));
        assert!(after > 1.0, "flow {flow} goes on, with {after} Mbit/s");
    }
    let asked = |range: Range<u64>| run.requests.iter().filter(move |r| range.contains(&r.start));
    assert!(asked(killed..ready).count() > 0 && asked(ready..end).count() > 0);
    let unanswered: Vec<_> = asked(run.start.0..end).filter(|r| r.end.is_none()).collect();
    assert!(unanswered.is_empty(), "{unanswered:?}");
}

/// A scenario of two runs of three seconds.
const TWO_RUNS: &str = r#"name = "two"
duration = "3 s"
seeds = [1, 2]
path = { rate = "12 Mbit/s", rtt = "20 ms", queue = { kind = "fifo", limit = "2 bdp" } }
[[traffic]]
name = "backlogged"
kind = "bulk"
[[arm]]
name = "forebay_sfq"
sendbox = { policy = "sfq", limit = "1000 packets" }
"#;

#[test]
fn an_interrupt_ends_it_in_order_and_keeps_what_was_finished() {
    if !has_root() {
        return;
    }
    let _turn = turn();
    let dir = Dir::new("interrupt");
    let file = dir.file("two.toml", TWO_RUNS, 0o644);
    let mut child = lab_run("netns", &file, &dir.0);
    let mut traces = Traces::default();
    // A run has a link, two boxes and two traffic programs: twice as many mean the second is set
    // up.
    watch(&mut child, &mut traces, |child, traces| {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was interrupted");
        traces.processes() == 10
    });
    // Wait until its traffic has started.
    thread::sleep(Duration::from_secs(1));
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = end(child, &mut traces);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_eq!(said.lines().last(), Some("forebay: interrupted"));
    traces.assert_seen_and_gone(2);
    let kept = store::files(&dir.0).unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(store::load(&kept[0]).unwrap().seed, 1);
}

/// Runs the command without root's rights; reports a skip if there is no way to drop them.
#[track_caller]
fn without_root(dir: &Dir, args: &[&str]) -> Option<Output> {
    // A copy where this user may run it, whatever directory it was built in.
    let program = dir.0.join("forebay");
    fs::copy(env!("CARGO_BIN_EXE_forebay"), &program).unwrap();
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(&program);
    if is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    }
    match command.args(args).current_dir(&dir.0).output() {
        Err(e) => {
            skip(Need::Program, &format!("setpriv: {e}"));
            None
        }
        Ok(output) => Some(output),
    }
}

#[test]
fn without_root_the_demo_is_simulated_and_says_how_to_get_the_real_one() {
    let dir = Dir::new("rootless");
    let Some(output) = without_root(&dir, &["demo", "--quick"]) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("this is the simulator") && said.contains("run it with sudo"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("Forebay SFQ"));
    assert!(dir.0.join("demo/report.html").exists());
}

#[test]
fn without_root_the_real_engine_says_how_to_get_it() {
    let dir = Dir::new("rootless-netns");
    let Some(output) = without_root(&dir, &["demo", "--engine", "netns"]) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("need root: run it with sudo"), "{said}");
}
