//! Tests boxes that end and start again, as a service manager makes them.

use std::process::Command;

use forebay_test_support::has_root;
use forebay_test_support::namespace::run;

use crate::support::PROGRAM;
use crate::support::probe::Probe;
use crate::support::sites::Sites;
use crate::support::span::{BOXES, METHODS, Span, TO};
use crate::support::transfer::{FILLING, Transfers};

const RESTARTS: usize = 8;
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGKILL];

#[test]
fn eight_restarts_cost_no_connection_in_user_space() {
    if !has_root() {
        return;
    }
    for method in METHODS {
        for (kind, _) in BOXES {
            restart_in_user_space(&Span::over("fr", method), kind, drop);
        }
    }
}

/// Ends a box again and again. Packets pass before it is started again, and `judge` gets their
/// stream at the end.
pub(crate) fn restart_in_user_space(span: &Span, kind: &str, judge: impl FnOnce(Probe)) {
    let mut running = span.start(kind);
    let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
    for signal in SIGNALS.into_iter().cycle().take(RESTARTS) {
        transfers.go_on();
        running.signal(signal);
        probe.go_on();
        transfers.receive_new();
        running = span.start(kind);
        probe.go_on();
    }
    transfers.go_on();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    transfers.go_on();
    transfers.end();
    judge(probe);

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
    if has_root() {
        METHODS.iter().for_each(|method| hang(method, drop));
    }
}

/// Stops a box twice. Packets pass before it goes on, and `judge` gets their stream at the end.
pub(crate) fn hang(method: &str, judge: impl FnOnce(Probe)) {
    let span = Span::over("fh", method);
    let mut running = span.start("sendbox");
    let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
    for _ in 0..2 {
        transfers.go_on();
        running.stop();
        probe.go_on();
        transfers.receive_new();
        running.go_on();
        probe.go_on();
    }
    transfers.go_on();
    transfers.end();
    judge(probe);
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
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
    if has_root() {
        restart_over_kernel_queues(drop);
    }
}

/// Ends a sendbox over the kernel's queues again and again. Packets pass before it is started
/// again, and `judge` gets their stream at the end.
pub(crate) fn restart_over_kernel_queues(judge: impl FnOnce(Probe)) {
    let sites = Sites::new("fs");
    let mut sendbox = sites.sendbox();
    let probe = Probe::start(&sites.from, &sites.to, "10.9.9.2");
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    for signal in SIGNALS.into_iter().cycle().take(RESTARTS) {
        sites.wait_for_control();
        sendbox.signal(signal);
        probe.go_on();
        if signal == libc::SIGKILL {
            sites.wait_for_bypass();
        }
        transfers.receive_new();
        sendbox = sites.sendbox();
    }
    transfers.go_on();
    sendbox.signal(libc::SIGTERM);
    transfers.end();
    judge(probe);
}
