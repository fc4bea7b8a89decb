//! Tests that a service remembers its paths over a restart under load.

use std::fs;
use std::process::Command;

use forebay_records::{KnownPaths, Status};
use forebay_test_support::has_root;
use forebay_test_support::namespace::run;

use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, until};

/// The state of the bundle.
fn bundle(sites: &Sites) -> Option<forebay_records::SendStatus> {
    let output = Command::new("ip")
        .args(["netns", "exec", &sites.router.0, PROGRAM, "status", "--json"])
        .output()
        .unwrap();
    let all: Vec<Status> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    all.into_iter().next()?.sends.into_iter().next()
}

/// The link has 40 ms and 80 ms of queue. While the sendbox is down, packets pass without a limit
/// and the queue is full.
#[test]
fn a_restart_under_load_keeps_the_minimum_rtt() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("fm");
    let mut sendbox = sites.remembering_sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    let file = sites.dir.0.join("sendbox-fb-out.paths");
    let written = || KnownPaths::parse(&fs::read(&file).unwrap()).ok();
    until("the paths are written", || written().is_some_and(|paths| !paths.paths.is_empty()));
    for (restart, signal) in [libc::SIGKILL, libc::SIGTERM].into_iter().enumerate() {
        sendbox.signal(signal);
        if signal == libc::SIGKILL {
            sites.wait_for_bypass();
        }
        transfers.receive_new();
        // The queue of the link is full, so that no round trip is as short as the path.
        let known = written().unwrap().paths[0].min_rtt_ns as f64 / 1e6;
        assert!(known > 39.0, "{known} ms, less than the path has");
        sendbox = sites.remembering_sendbox();
        let mut first = None;
        until("the minimum RTT is told", || {
            first = bundle(&sites).and_then(|bundle| Some((bundle.min_rtt_ms?, bundle.rtt_ms?)));
            first.is_some()
        });
        let (least, rtt) = first.unwrap();
        eprintln!("signal {signal}: minimum RTT {least:.1} ms, the first round trips {rtt:.1} ms");
        assert!((39.0..known + 0.1).contains(&least), "{least} ms, not {known}: {}", sites.said());
        let said = sites.said();
        let remembered = "bundle b: remembered: minimum RTT ";
        assert_eq!(said.matches(remembered).count(), restart + 1, "{said}");
        assert_eq!(said.matches(": an earlier process measured it").count(), restart + 1, "{said}");
        sites.wait_for_control();
    }
    transfers.go_on();
    transfers.end();
    sendbox.signal(libc::SIGTERM);

    // A file of another program is said, ignored and replaced.
    fs::write(&file, "not ours\n").unwrap();
    let mut sendbox = sites.remembering_sendbox();
    let said = sites.said();
    let told =
        "sendbox-fb-out.paths: the paths are measured anew: it is no file of Forebay's paths";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    assert_eq!(said.matches("remembered: ").count(), 2, "{said}");
    sendbox.signal(libc::SIGTERM);
    assert!(written().is_some());
    let unfiltered = run(&format!("ls -l {}", file.display()));
    assert!(unfiltered.starts_with("-rw-------"), "{unfiltered}");
}
