//! Judges the control loop by the records of runs: estimates and shares in virtual time, and a dead
//! receivebox in real time.

use std::ops::Range;

use forebay_lab::analysis::{Analysis, Estimates};
use forebay_lab::results::{Run, Tick};
use forebay_lab::scenario::{self, FaultKind};
use forebay_test_support::{Dir, has_root};

use crate::support::lab::{experiment, has_uml_kernel, lab_run, only_run, run_in_real_time, start};

const SECOND: u64 = 1_000_000_000;

/// Runs an experiment of the repository, which has a single run, in virtual time. Without a kernel
/// for that it reports a skip.
#[track_caller]
fn run_in_virtual_time(name: &str, dataplane: &str) -> Option<(Run, Analysis)> {
    if !has_uml_kernel() {
        return None;
    }
    let dir = Dir::new(&format!("{name}-{dataplane}"));
    let mut command = lab_run("uml", &experiment(name), dir.path());
    command.args(["--dataplane", dataplane]);
    let output = start(&mut command).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(only_run(&dir))
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
    if !has_root() {
        return;
    }
    let (file, dir) = (experiment("receivebox-death"), Dir::new("receivebox-death"));
    let run = run_in_real_time(&file, &dir);
    let scenario = scenario::load(&file).unwrap().cells.remove(0);
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
