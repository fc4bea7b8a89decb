//! Tests `forebay lab run` on this machine's kernel: a receivebox that dies and comes back, and an
//! interrupt.

use std::process::Command;
use std::thread;
use std::time::Duration;

use forebay_lab::results::{Tick, store};
use forebay_test_support::traces::Traces;
use forebay_test_support::{Dir, has_root};

use crate::support::lab::{end, lab_run, run_in_real_time, start, watch};

/// A receivebox that is killed after 4 s and back after 8 s.
const DEATH: &str = r#"name = "death"
warmup = "3 s"
duration = "9 s"
path = { rate = "24 Mbit/s", rtt = "50 ms", queue = { kind = "fifo", limit = "2 bdp" } }
[[traffic]]
name = "backlogged"
kind = "bulk"
flows = 4
[[arm]]
name = "forebay_sfq"
sendbox = { policy = "sfq", limit = "2000 packets" }
[[fault]]
process = "receivebox"
at = "4 s"
back = "8 s"
"#;

/// `measured::lab` has the times and the goodput.
#[test]
fn a_dead_receivebox_opens_the_bundle_and_a_new_one_closes_it() {
    if !has_root() {
        return;
    }
    let dir = Dir::new("death");
    let run = run_in_real_time(&dir.file("death.toml", DEATH, 0o644), &dir);
    let [fault] = &run.faults[..] else { panic!("{:?}", run.faults) };
    let (killed, ready, end) = (fault.killed, fault.ready.unwrap(), run.end.0);
    let any = |from: u64, to: u64, is_so: fn(&Tick) -> bool| {
        let mut ticks = run.ticks.iter().filter(|tick| (from..to).contains(&tick.time));
        ticks.any(is_so)
    };
    let is_open = |tick: &Tick| tick.mode == "open" && tick.rate.is_none();
    let is_limited = |tick: &Tick| tick.mode != "open" && tick.rate.is_some();
    assert!(any(0, killed, is_limited), "limited before");
    assert!(any(killed, ready, is_open), "open without a receivebox: {fault:?}");
    assert!(any(ready, end, is_limited), "limited again: {fault:?}");
    for (from, to) in [(killed, ready), (ready, end)] {
        for flow in 0..4 {
            let within = run.progress.iter().filter(|p| (from..to).contains(&p.time));
            let bytes: u64 = within.filter(|p| p.flow == flow).map(|p| p.bytes).sum();
            assert!(bytes > 0, "flow {flow} goes on after {from}: {fault:?}");
        }
    }
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
    let dir = Dir::new("interrupt");
    let file = dir.file("two.toml", TWO_RUNS, 0o644);
    let mut child = start(&mut lab_run("netns", &file, &dir.0));
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
    assert_eq!(said.lines().last(), Some("forebay-lab: interrupted"));
    traces.assert_seen_and_gone(2);
    let kept = store::files(&dir.0).unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(store::load(&kept[0]).unwrap().seed, 1);
}
