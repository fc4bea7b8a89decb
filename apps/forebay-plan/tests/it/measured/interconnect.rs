//! Runs `forebay plan demo` with real BGP daemons and with faults, and checks that nothing is left
//! behind. It takes minutes and needs root, GoBGP and BIRD, so only `make test-bgp` runs it, which
//! installs those.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_interconnect::{Record, Several, Tables};
use forebay_test_support::Dir;
use forebay_test_support::{Need, has_root, skip};

fn demo(dir: &Dir, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
    command.args(["demo", "--quick", "--out"]).arg(dir.0.join("out")).args(more);
    command
}

/// The environment variable that asks for these tests, which `make test-bgp` sets.
const ASKED: &str = "FOREBAY_TEST_BGP";

/// Whether this run has the daemons and the rights that the calling test needs. If not, reports a
/// skip.
#[track_caller]
fn can_run() -> bool {
    if std::env::var_os(ASKED).is_none() {
        skip(Need::BgpDaemons, "GoBGP and BIRD are installed by `make test-bgp`, which runs this");
        return false;
    }
    has_root()
}

/// The namespaces of demonstrations, by the id of their run.
fn namespaces() -> BTreeSet<String> {
    let all = fs::read_dir("/run/netns").into_iter().flatten();
    let names = all.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.starts_with("fb-") && n.ends_with("-ops")).collect()
}

/// Counts the processes whose command line names a file of this run under `/run/forebay-lab`.
fn daemons(id: &str) -> usize {
    let own = format!("/run/forebay-lab/{id}/");
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|e| fs::read_to_string(e.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(&own)).count()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "waited for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Starts a demonstration, waits for its BGP daemons, and returns it with the id of its run.
fn begun(dir: &Dir, isps: &str) -> (Child, String) {
    let before = namespaces();
    let child =
        demo(dir, &["--isps", isps]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut id = String::new();
    wait_for("daemons", || {
        let new = namespaces().difference(&before).next().cloned();
        id = new.map_or(String::new(), |n| n["fb-".len()..n.len() - "-ops".len()].to_owned());
        !id.is_empty() && daemons(&id) >= 3
    });
    (child, id)
}

fn send(child: &Child, signal: libc::c_int) {
    // SAFETY: takes two integers; the child is not yet waited for, so its id is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

#[test]
fn hints_move_traffic_whatever_goes_wrong() {
    if !can_run() {
        return;
    }
    let dir = Dir::new("interconnect");
    let json = dir.0.join("record.json");
    let output = demo(&dir, &["--faults", "--json"]).arg(&json).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{said}");
    let record: Record = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(record.checks.len() >= 18 && record.checks.iter().all(|c| c.holds), "{text}");
    // Check the routes themselves, not only the verdicts of the record.
    let entries = |tables: &Tables| -> BTreeSet<String> {
        tables.values().flat_map(|t| t.values().cloned()).collect()
    };
    assert_eq!(entries(&record.first).len(), 1, "{text}");
    assert_eq!(entries(&record.hinted).len(), 3, "{text}");
    assert_eq!(record.first, record.withdrawn);
    let last = record.rounds.last().unwrap();
    assert!(record.rounds.len() > 1 && (last.changes, last.steps) == (0, 0), "{text}");
    for family in [".", ":"] {
        let moved = |provider: &str, (prefix, entry): (&String, &String)| {
            prefix.contains(family) && record.first[provider].get(prefix) != Some(entry)
        };
        let any = |(name, table): (&String, &_)| -> bool {
            let table: &std::collections::BTreeMap<String, String> = table;
            table.iter().any(|route| moved(name, route))
        };
        assert!(record.hinted.iter().any(any), "no prefix with {family} has another way: {text}");
    }
    // The entries carry 30, 30 and 20 Mbit/s; before the hints one of 30 carried everything.
    assert!(record.before.total() < 31.0 && record.after.total() > 45.0, "{text}");
    assert!(fs::read_to_string(dir.0.join("out/throughput.svg")).unwrap().contains("curve c2"));
}

#[test]
fn two_isps_move_only_their_own_traffic() {
    if !can_run() {
        return;
    }
    let dir = Dir::new("interconnect-two");
    let json = dir.0.join("record.json");
    let output = demo(&dir, &["--isps", "2", "--faults", "--json"]).arg(&json).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{said}");
    let record: Several = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(record.checks.len() >= 15 && record.holds(), "{text}");
    for (name, providers, entries) in [
        ("coast", ["cloud", "games", "music", "video"], ["east", "west"]),
        ("inland", ["cloud", "games", "shop", "video"], ["north", "south"]),
    ] {
        let isp = &record.isps[name];
        assert!(isp.first.keys().eq(providers.iter()), "{text}");
        // Check the routes themselves, not only the verdicts of the record.
        let used: BTreeSet<_> = isp.hinted.values().flat_map(|t| t.values()).collect();
        assert!(used.iter().eq(entries.iter()), "{text}");
        assert_eq!(isp.first, isp.withdrawn, "{text}");
        // An entry has 20 or 24 Mbit/s; before the hints one carried all.
        assert!(isp.before.total() < 25.0 && isp.after.total() > 30.0, "{text}");
    }
}

#[test]
fn nothing_is_left_behind() {
    if !can_run() {
        return;
    }
    ["1", "2"].into_iter().for_each(end_and_look);
}

fn end_and_look(isps: &str) {
    let dir = Dir::new("interconnect-end");
    let (mut child, id) = begun(&dir, isps);
    send(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!namespaces().iter().any(|n| n.contains(&id)) && daemons(&id) == 0);

    // After SIGKILL the daemons die with it, and the next run removes the namespaces.
    let (mut child, id) = begun(&dir, isps);
    send(&child, libc::SIGKILL);
    child.wait().unwrap();
    wait_for("processes to end", || daemons(&id) == 0);
    assert!(namespaces().iter().any(|n| n.contains(&id)));
    let (mut child, next) = begun(&dir, isps);
    assert!(!namespaces().iter().any(|n| n.contains(&id)), "reclaimed");
    send(&child, libc::SIGTERM);
    child.wait().unwrap();
    assert!(!namespaces().iter().any(|n| n.contains(&next)));
}
