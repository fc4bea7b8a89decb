//! Tests interfaces that change while a box uses them.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_test_support::has_root;
use forebay_test_support::namespace::{run, within};

use crate::support::probe::{MAX_OUTAGE, Probe};
use crate::support::process::Process;
use crate::support::sites::{Sites, path};
use crate::support::span::{BOXES, METHODS, Span, TO};
use crate::support::{PROGRAM, until};

/// Each kind of box with each way in which it moves frames.
pub(crate) fn boxes() -> impl Iterator<Item = (&'static str, &'static str)> {
    BOXES.into_iter().flat_map(|(kind, _)| METHODS.map(|method| (kind, method)))
}

/// Starts a box of this kind again whenever it ends, as a service manager does, until `is_enough`.
fn keep_running(span: &Span, kind: &str, mut is_enough: impl FnMut() -> bool) -> Process {
    let start = || {
        let mut command = span.command((kind, &[]), "");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Process::spawn(&mut command)
    };
    let mut running = start();
    until("the box works again", || {
        if running.has_ended() {
            // Most of the limit of an outage is left for the box itself.
            thread::sleep(MAX_OUTAGE / 4);
            running = start();
        }
        is_enough()
    });
    running
}

/// Waits until the box has noticed a change, and ended with the exit status of an error.
fn assert_ends(running: &mut Process) {
    assert_eq!(running.wait(), Some(1));
}

#[test]
fn a_removed_interface_is_noticed_and_used_when_it_is_back() {
    if has_root() {
        boxes().for_each(|(kind, method)| remove_interface(kind, method, |probe, _| drop(probe)));
    }
}

/// Removes an interface of a running box, and makes it again. `judge` gets the stream of packets,
/// and when the interface was back.
pub(crate) fn remove_interface(kind: &str, method: &str, judge: impl FnOnce(Probe, Instant)) {
    let span = Span::over("fi", method);
    let mut running = span.start(kind);
    let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
    transfers.go_on();
    run(&format!("ip -n {} link del fb-out", span.middle.0));
    assert_ends(&mut running);
    let mut back = None;
    let running = keep_running(&span, kind, || {
        if back.is_none() {
            span.connect(2);
            back = Some(Instant::now());
        }
        span.has_programs()
    });
    probe.go_on();
    transfers.go_on();
    transfers.end();
    drop(running);
    judge(probe, back.unwrap());
}

/// Whether a datagram of 2500 bytes passes in one frame.
fn large_frames_pass(span: &Span) -> bool {
    let any = "0.0.0.0:0";
    let receiver = within(&span.to.0, move || UdpSocket::bind(any).unwrap());
    let sender = within(&span.from.0, move || UdpSocket::bind(any).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let _ = sender.send_to(&[7; 2_500], (TO, receiver.local_addr().unwrap().port()));
    receiver.recv(&mut [0; 4_096]).is_ok()
}

#[test]
fn frames_of_a_raised_mtu_pass_after_a_restart() {
    if has_root() {
        boxes().for_each(|(kind, method)| raise_mtu(kind, method, drop));
    }
}

/// Raises the MTU of the interfaces of a running box, and starts another one. `judge` gets the
/// stream of packets.
pub(crate) fn raise_mtu(kind: &str, method: &str, judge: impl FnOnce(Probe)) {
    let span = Span::over("fm", method);
    let mut running = span.start(kind);
    let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
    transfers.go_on();
    for (namespace, device) in [
        (&span.from, "eth0"),
        (&span.to, "eth0"),
        (&span.middle, "fb-in"),
        (&span.middle, "fb-out"),
    ] {
        run(&format!("ip -n {} link set {device} mtu 3000", namespace.0));
    }
    assert_ends(&mut running);
    let mut running = span.start(kind);
    until("large frames pass", || large_frames_pass(&span));
    probe.go_on();
    transfers.go_on();
    transfers.end();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    probe.go_on();
    judge(probe);
}

#[test]
fn an_interface_that_is_renamed_or_down_for_a_while_ends_no_box() {
    if !has_root() {
        return;
    }
    for (kind, method) in boxes() {
        let span = Span::over("fu", method);
        let mut running = span.start(kind);
        let transfers = span.transfers();
        transfers.go_on();
        for change in ["fb-out down", "fb-out name fb-new", "fb-new up"] {
            run(&format!("ip -n {} link set {change}", span.middle.0));
        }
        transfers.go_on();
        // A box looks at its interfaces several times a second.
        thread::sleep(Duration::from_secs(1));
        running.assert_alive();
        transfers.go_on();
        transfers.end();
        assert_eq!(running.signal(libc::SIGTERM), Some(0));
    }
}

const RECEIVEBOX: &str = r#"[receivebox]
interface = "eth0"
listen = "10.9.6.2:28317"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.6.2/32"]
sendbox = "10.9.6.3:28316"
key_file = "key"
"#;

#[test]
fn a_receivebox_notices_that_its_interface_was_removed() {
    if !has_root() {
        return;
    }
    let span = Span::new("fv");
    let file = span.dir.file("receivebox.toml", RECEIVEBOX, 0o644);
    let start = || {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &span.to.0, PROGRAM, "receivebox", "--config", path(&file)]);
        Process::start_ready(&mut command)
    };
    let mut running = start();
    run(&format!("ip -n {} link del eth0", span.to.0));
    assert_ends(&mut running);
    span.connect(2);
    assert_eq!(start().signal(libc::SIGTERM), Some(0));
}

#[test]
fn a_sendbox_over_the_kernels_queues_notices_that_its_interface_was_removed() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("fw");
    let file = sites.dir.0.join("sendbox.toml");
    let start = || {
        let mut command = Command::new("ip");
        let router = &sites.router.0;
        command.args(["netns", "exec", router, PROGRAM, "sendbox", "--config", path(&file)]);
        Process::start_ready(&mut command)
    };
    let mut running = start();
    assert!(sites.class().is_some());
    let router = &sites.router.0;
    run(&format!("ip -n {router} link del fb-out"));
    assert_ends(&mut running);
    // Another interface has the name now.
    run(&format!("ip -n {router} link add fb-out type veth peer name fb-end"));
    for change in ["link set fb-out up", "link set fb-end up", "address add 10.9.9.1/24 dev fb-out"]
    {
        run(&format!("ip -n {router} {change}"));
    }
    let mut running = start();
    assert!(sites.class().is_some());
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    assert!(!sites.tc("qdisc show {}").contains("htb"));
}
