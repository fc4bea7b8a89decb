//! Tests boxes that end and start again, as a service manager makes them.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::namespace::{has_root, run};
use crate::probe::Probe;
use crate::sites::{PROGRAM, Sites};
use crate::span::{BOXES, METHODS, Span, TO};
use crate::transfer::{FILLING, Transfers};

/// The time between end and start of the documented service (`RestartSec`).
const PAUSE: Duration = Duration::from_secs(1);
const RESTARTS: usize = 8;
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGKILL];

#[test]
fn eight_restarts_cost_no_connection_in_user_space() {
    if !has_root() {
        return;
    }
    for method in METHODS {
        for (kind, _) in BOXES {
            assert_survives_restarts(&Span::over("fr", method), method, kind);
        }
    }
}

pub(crate) fn assert_survives_restarts(span: &Span, method: &str, kind: &str) {
    let mut running = span.start(kind);
    let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
    for signal in SIGNALS.into_iter().cycle().take(RESTARTS) {
        transfers.go_on();
        running.signal(signal);
        thread::sleep(PAUSE);
        transfers.go_on();
        running = span.start(kind);
    }
    transfers.go_on();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    transfers.go_on();
    let stall = transfers.end();
    let what = format!("{kind}, {method}: {RESTARTS} restarts, {stall:.1?} at most in a transfer");
    probe.end().check(&what);

    assert!(span.has_programs());
    let detach = format!("ip netns exec {} {PROGRAM} detach fb-in fb-out", span.middle.0);
    assert_eq!(run(&detach).matches("detached the program").count(), 2);
    assert!(!span.has_programs(), "nothing is left");
    let devices = run(&format!("ip -n {} link show", span.middle.0));
    assert!(!devices.contains("PROMISC"), "nothing is left: {devices}");
    assert_eq!(run(&detach).matches("no program of a box").count(), 2);
}

#[test]
fn a_box_that_hangs_costs_no_connection() {
    if !has_root() {
        return;
    }
    for method in METHODS {
        let span = Span::over("fh", method);
        let mut running = span.start("sendbox");
        let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
        for _ in 0..2 {
            transfers.go_on();
            running.send(libc::SIGSTOP);
            thread::sleep(PAUSE);
            transfers.go_on();
            running.send(libc::SIGCONT);
        }
        transfers.go_on();
        let stall = transfers.end();
        probe.end().check(&format!("{method}: two hangs, {stall:.1?} at most in a transfer"));
        assert_eq!(running.signal(libc::SIGTERM), Some(0));
    }
}

#[test]
fn a_running_box_keeps_its_programs() {
    if !has_root() {
        return;
    }
    let span = Span::new("fp");
    let _running = span.start("link");
    let output = Command::new("ip")
        .args(["netns", "exec", &span.middle.0, PROGRAM, "detach", "fb-in", "fb-out"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("in use by another running forebay"), "{said}");
    assert!(span.has_programs());
}

#[test]
fn eight_restarts_cost_no_connection_over_the_kernels_queues() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("fs");
    let mut sendbox = sites.sendbox();
    let probe = Probe::start(&sites.from, &sites.to, "10.9.9.2");
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    for signal in SIGNALS.into_iter().cycle().take(RESTARTS) {
        sites.wait_for_control();
        sendbox.signal(signal);
        thread::sleep(PAUSE);
        if signal == libc::SIGKILL {
            sites.wait_for_bypass();
        }
        transfers.go_on();
        sendbox = sites.sendbox();
    }
    transfers.go_on();
    sendbox.signal(libc::SIGTERM);
    let stall = transfers.end();
    probe.end().check(&format!("kernel: {RESTARTS} restarts, {stall:.1?} at most in a transfer"));
}
