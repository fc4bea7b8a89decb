//! Tests that a new process takes over from a running box while traffic passes.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_records::Taken;
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run};

use super::reload::{CONNECTIONS, End, Pair, WIRE_RECEIVEBOX, head, loops_begun, wire_file};
use crate::support::capture::{frames_of, is_message};
use crate::support::probe::Probe;
use crate::support::process::{self, Process};
use crate::support::sites::Sites;
use crate::support::span::{Span, TO, WIRES};
use crate::support::transfer::Transfers;
use crate::support::{PROGRAM, until};

/// `forebay upgrade` at work. The test is the service manager.
struct Upgrade(Child);

impl Upgrade {
    /// Starts it, and waits until it holds the place of the new process.
    fn start(place: &Namespace, process: u32, interface: &str) -> Self {
        let child = Command::new("ip")
            .args(["netns", "exec", &place.0, PROGRAM, "upgrade", "--json"])
            .args(["--process", &process.to_string(), "--", "true"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let sockets = format!("ip netns exec {} cat /proc/net/unix", place.0);
        until("it waits for the new process", || {
            let is_it = |line: &str| {
                line.contains("/handover-") && line.ends_with(&format!("-{interface}.sock"))
            };
            run(&sockets).lines().any(is_it)
        });
        Self(child)
    }

    fn end(self) -> Taken {
        let output = self.0.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Watches for feedback of the other site.
struct Feedback {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Feedback {
    /// Notes the times of the feedback messages that arrive at the head site from now on.
    fn watch(sites: &Sites) -> Self {
        let frames = frames_of(&sites.router, "fb-out");
        frames.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let enough = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&enough);
        let thread = thread::spawn(move || {
            let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
            let mut buffer = [0; 2048];
            while !done.load(Ordering::Relaxed) {
                let length = frames.recv(&mut buffer).unwrap_or_default();
                // The lower half of the first byte is the type.
                let is_feedback =
                    is_message(&buffer[..length], 28316) && [1, 4].contains(&(buffer[42] & 15));
                if is_feedback && buffer[26..30] == [10, 9, 9, 2] {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
            }
            longest.max(last.elapsed())
        });
        Self { enough, thread }
    }

    /// Returns the longest time without a message.
    fn end(self) -> Duration {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn an_upgrade_keeps_queues_rates_and_sessions_over_the_kernels_queues() {
    if has_root() {
        upgrade_over_kernel_queues(drop);
    }
}

/// Upgrades both sites in turns, under load in one direction. `judge` gets the stream of packets.
pub(crate) fn upgrade_over_kernel_queues(judge: impl FnOnce(Probe)) {
    let text = head("{ kind = \"sfq\", limit = \"6000 packets\" }", "\"10.9.9.2/32\"", "");
    let mut pair = Pair::start("fu", &text);
    let transfers = Transfers::start(&pair.sites, "10.9.9.2", CONNECTIONS);
    pair.sites.wait_for_control();
    until("the queue is here", || pair.sites.class().is_some_and(|class| class.waiting > 50));
    transfers.go_on();
    let (dropped, unlimited) = (pair.sites.class().unwrap().dropped, pair.sites.unlimited());
    let probe = Probe::start(&pair.sites.from, &pair.sites.to, "10.9.9.2");
    let before = transfers.forget_stalls();
    for (end, interface, name) in [
        (End::Head, "fb-out", "branch"),
        (End::Branch, "eth0", "head"),
        (End::Head, "fb-out", "branch"),
    ] {
        // A slow start at one end may have opened the bundle at the other.
        pair.sites.wait_for_control();
        let (process, place) = pair.at(end);
        let upgrade = Upgrade::start(place, process, interface);
        let feedback = Feedback::watch(&pair.sites);
        let start = Instant::now();
        pair.restart(end);
        let took = start.elapsed();
        transfers.go_on();
        let silence = feedback.end();
        let taken = upgrade.end();
        assert_ne!(taken.process, process);
        assert_eq!(taken.process, pair.at(end).0);
        let kept = taken.kept.join("\n");
        assert!(kept.contains("the messages at "), "{taken:?}");
        assert!(
            kept.contains(&format!("bundle {name}: the session with its sendbox")),
            "{taken:?}"
        );
        if let End::Head = end {
            assert!(taken.fresh.is_empty(), "{taken:?}");
            // The new process goes on at the rate of the old one. Without it, it would be open.
            let rate = kept.lines().find_map(|line| {
                let (rate, rest) = line.strip_prefix("bundle branch: ")?.split_once(" Mbit/s")?;
                rest.contains("minimum RTT").then(|| rate.parse::<f64>().unwrap())
            });
            assert!(rate.is_some_and(|mbps| mbps <= 20.0), "{taken:?}");
            let class = pair.sites.class().unwrap();
            assert!(class.mbps < 25.0, "{} Mbit/s", class.mbps);
        }
        eprintln!(
            "{end:?}: the new process was ready {took:.1?} after the end of the old began; the \
             head had no feedback for {silence:.1?} at most"
        );
        transfers.go_on();
    }
    let stall = transfers.forget_stalls();
    let dropped = pair.sites.class().unwrap().dropped - dropped;
    let unlimited = pair.sites.unlimited() - unlimited;
    eprintln!(
        "kernel: three upgrades, {stall:.1?} at most in a transfer ({before:.1?} before), \
         {dropped} packets dropped, {unlimited} passed without a class"
    );
    probe.go_on();
    judge(probe);
    transfers.go_on();
    transfers.end();
    let said = pair.sites.said();
    // None, if it was silent before it was measured.
    let begun = loops_begun(&said, "branch");
    assert!(begun <= 1, "no control loop of the bundle began anew: {said}");
    pair.head.signal(libc::SIGTERM);
    assert!(pair.sites.class().is_none(), "the queues go at an end without a successor");
}

#[test]
fn an_upgrade_costs_no_connection_in_user_space() {
    if has_root() {
        WIRES.into_iter().for_each(|wire| upgrade_in_user_space(wire, drop));
    }
}

/// Upgrades a sendbox in the cable and its receivebox. `judge` gets the stream of packets.
pub(crate) fn upgrade_in_user_space((method, queues): (&str, u32), judge: impl FnOnce(Probe)) {
    let span = Span::with_queues("fv", method, queues);
    for host in [&span.from.0, &span.to.0] {
        run(&format!(
            "tc -n {host} qdisc replace dev eth0 root tbf rate 60mbit burst 32k latency 2s"
        ));
    }
    let log = span.dir.0.join("receivebox.log");
    let receivebox = span.dir.file("receivebox.toml", WIRE_RECEIVEBOX, 0o644);
    let arguments = ["receivebox", "--config", receivebox.to_str().unwrap()];
    let start_receivebox = || process::start(&span.to, &arguments, &log);
    let mut receivebox = start_receivebox();
    span.dir.file("sendbox.toml", &wire_file(method, "\"sfq\"", ""), 0o644);
    let said = span.dir.0.join("sendbox.log");
    let start = |log: &Path| {
        let log = File::options().create(true).append(true).open(log).unwrap();
        Process::start_ready(span.command(("sendbox", &[]), "").stderr(log))
    };
    let mut running = start(&said);
    let read = || fs::read_to_string(&said).unwrap();
    let transfers = Transfers::between(&span.from, &span.to, TO, CONNECTIONS);
    until("the bundle is limited", || read().contains("mode open -> delay control"));
    transfers.go_on();
    let probe = Probe::start(&span.from, &span.to, TO);
    let before = transfers.forget_stalls();
    let process = running.id();
    let upgrade = Upgrade::start(&span.middle, process, "fb-out");
    let begun = Instant::now();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    running = start(&said);
    let took = begun.elapsed();
    let taken = upgrade.end();
    assert!(taken.fresh.is_empty() && taken.kept.len() == 2, "{taken:?}");
    assert_eq!(taken.process, running.id());
    transfers.go_on();
    let upgrade = Upgrade::start(&span.to, receivebox.id(), "eth0");
    receivebox.signal(libc::SIGTERM);
    receivebox = start_receivebox();
    let taken = upgrade.end();
    assert!(taken.fresh.is_empty() && taken.kept.len() == 2, "{taken:?}");
    transfers.go_on();
    let stall = transfers.forget_stalls();
    eprintln!(
        "{method}: the new sendbox was ready after {took:.1?}, {stall:.1?} at most in a transfer \
         ({before:.1?} before)"
    );
    probe.go_on();
    judge(probe);
    transfers.end();
    let said = read();
    assert!(loops_begun(&said, "b") <= 1, "{said}");
    drop(receivebox);
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    assert!(span.has_programs(), "frames pass after an orderly end");
}

#[test]
fn an_unplugged_wire_leaves_nothing() {
    if !has_root() {
        return;
    }
    for (method, kind) in [("xdp", "sendbox"), ("packet", "link")] {
        let span = Span::over("fw", method);
        // The programs that another process left go too.
        let mut running = span.start(kind);
        running.signal(libc::SIGKILL);
        assert!(span.has_programs(), "{method}");
        let mut running = Process::start_ready(span.command((kind, &[]), "").arg("--unplug"));
        assert_eq!(running.signal(libc::SIGTERM), Some(0));
        assert!(!span.has_programs(), "{method}");
        let devices = run(&format!("ip -n {} link show", span.middle.0));
        assert!(!devices.contains("PROMISC"), "{method}: {devices}");
    }
}

#[test]
fn an_upgrade_without_a_command_or_a_box_says_what_to_do() {
    if !has_root() {
        return;
    }
    let span = Span::over("fq", "packet");
    let command = |arguments: &[&str]| {
        let output = Command::new("ip")
            .args(["netns", "exec", &span.middle.0, PROGRAM, "upgrade"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    };
    assert!(command(&[]).contains("no box that can hand over runs"));
    let mut running = span.start("sendbox");
    let process = running.id().to_string();
    let said = command(&["--process", &process, "--", "false"]);
    assert!(
        said.contains("false failed (exit status: 1) and the old process did not end"),
        "{said}"
    );
    let said = command(&["--process", "1"]);
    assert!(said.contains("process 1 is no site, sendbox or receivebox of this"), "{said}");
    // Nobody waits any more, so that the end is an orderly one.
    running.assert_alive();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
}
