//! Tests outputs that cannot be written: logs, records and the program's own log.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use forebay_test_support::has_root;
use forebay_test_support::namespace::run;

use crate::support::probe::Probe;
use crate::support::process::Process;
use crate::support::sites::{Sites, path};
use crate::support::span::{BOXES, Span, TO};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{PROGRAM, forebay_in, until};

/// The outputs that the program's log may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Broken {
    /// A file on a full disk.
    Full,
    /// A pipe whose reader has ended.
    Closed,
    /// A pipe whose reader does not read.
    Stuck,
}

/// Writes to a pipe until it has no room for another line.
fn fill(mut pipe: &PipeWriter) {
    loop {
        let fd = pipe.as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        if unsafe { libc::poll(&raw mut poll, 1, 0) } == 0 {
            return;
        }
        // A pipe that is ready takes this much at once.
        pipe.write_all(&[b' '; libc::PIPE_BUF]).unwrap();
    }
}

impl Broken {
    pub(crate) const ALL: [Self; 3] = [Self::Closed, Self::Stuck, Self::Full];

    /// Starts `command` with such an output as standard error, and waits until it is ready. The
    /// second value must exist as long as the process.
    fn start(self, mut command: Command) -> (Process, Option<PipeReader>) {
        if let Self::Full = self {
            let full = File::options().write(true).open("/dev/full").unwrap();
            return (Process::start_ready(command.stderr(full)), None);
        }
        let (reader, writer) = std::io::pipe().unwrap();
        if let Self::Stuck = self {
            fill(&writer);
            return (Process::start_ready(command.stderr(writer)), Some(reader));
        }
        drop(reader);
        (Process::start_ready(command.stderr(writer)), None)
    }
}

#[test]
fn logs_that_cannot_be_written_cost_no_packet_in_user_space() {
    if !has_root() {
        return;
    }
    for broken in Broken::ALL {
        for (kind, files) in BOXES {
            break_logs_in_user_space(broken, kind, files, drop);
        }
    }
}

/// Runs a box whose logs cannot be written. `judge` gets the stream of packets at its end.
pub(crate) fn break_logs_in_user_space(
    broken: Broken,
    kind: &str,
    files: &[&str],
    judge: impl FnOnce(Probe),
) {
    let span = Span::new("fl");
    let mut command = span.command((kind, files), "/dev/full");
    command.arg("-vv");
    let (mut running, _reader) = broken.start(command);
    let (probe, transfers) = (Probe::start(&span.from, &span.to, TO), span.transfers());
    transfers.receive_new();
    probe.go_on();
    running.assert_alive();
    transfers.end();
    judge(probe);
    running.assert_alive();
    let status = running.signal(libc::SIGTERM);
    assert_eq!(status, Some(1), "{kind}, {broken:?}: records were lost");
}

#[test]
fn logs_that_cannot_be_written_cost_no_packet_over_the_kernels_queues() {
    if has_root() {
        Broken::ALL.into_iter().for_each(|broken| break_logs_over_kernel_queues(broken, drop));
    }
}

/// Runs a sendbox over the kernel's queues whose logs cannot be written. `judge` gets the stream of
/// packets after its end.
pub(crate) fn break_logs_over_kernel_queues(broken: Broken, judge: impl FnOnce(Probe)) {
    let sites = Sites::new("fk");
    let file = sites.dir.0.join("sendbox.toml");
    let mut command = forebay_in(&sites.router, &["sendbox", "-vv", "--config", path(&file)]);
    for log in ["--tick-log", "--event-log", "--packet-log", "--counters"] {
        command.args([log, "/dev/full"]);
    }
    command.stdin(Stdio::null());
    let (mut running, _reader) = broken.start(command);
    let probe = Probe::start(&sites.from, &sites.to, "10.9.9.2");
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    transfers.receive_new();
    probe.go_on();
    running.assert_alive();
    assert_eq!(running.signal(libc::SIGTERM), Some(1), "{broken:?}: records were lost");
    assert!(!sites.tc("qdisc show {}").contains("htb"));
    transfers.end();
    judge(probe);
}

/// Returns a pipe whose reader has ended.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

/// Starts `command` with a closed standard output, waits until the box has set itself up, and ends
/// it.
fn assert_starts(what: &str, mut command: Command, mut is_set_up: impl FnMut() -> bool) {
    let mut running = Process::spawn(command.stdout(closed()));
    until(what, || {
        running.assert_alive();
        is_set_up()
    });
    assert_eq!(running.signal(libc::SIGTERM), Some(0), "{what}");
}

#[test]
fn a_closed_standard_output_is_no_error() {
    if !has_root() {
        return;
    }
    for (kind, _) in BOXES {
        let span = Span::new("fo");
        let command = span.command((kind, &[]), "");
        assert_starts(kind, command, || span.has_programs());
    }
    let sites = Sites::new("fq");
    let start = |kind: &str, namespace: &str| {
        let mut command = Command::new("ip");
        let file = sites.dir.0.join(format!("{kind}.toml"));
        command.args(["netns", "exec", namespace, PROGRAM, kind, "--config", path(&file)]);
        command
    };
    let command = start("sendbox", &sites.router.0);
    assert_starts("sendbox over the kernel's queues", command, || sites.class().is_some());
    sites.stop_receivebox();
    let receivebox = start("receivebox", &sites.to.0);
    let attached = || run(&format!("ip -n {} link show eth0", sites.to.0)).contains("xdp");
    assert_starts("receivebox", receivebox, attached);
}
