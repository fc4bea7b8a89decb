//! Tests boxes that read their files again and again while traffic passes. Nothing may be lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use forebay_records::{Reloaded, Status};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run, within};

use crate::support::probe::Probe;
use crate::support::process::{self, Process};
use crate::support::sites::Sites;
use crate::support::span::{Span, TO, WIRES};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{HANG_TIMEOUT, PROGRAM, until};

/// The reloads of a test.
pub(crate) const RELOADS: usize = 100;
/// The connections of a test.
pub(crate) const CONNECTIONS: usize = 50;
/// The memory in kB by which a process may grow: its allocator keeps some.
const GROWTH: u64 = 2_048;

/// A running box whose file changes.
struct Changing<'a> {
    place: &'a Namespace,
    process: u32,
    file: &'a Path,
}

/// What a box uses: memory in kB and descriptors.
#[derive(Clone, Copy, Debug)]
struct Use {
    memory: u64,
    descriptors: usize,
}

impl Changing<'_> {
    /// Writes `text` to the file and lets the box read it.
    fn reload(&self, text: &str) -> Reloaded {
        fs::write(self.file, text).unwrap();
        let process = self.process;
        within(&self.place.0, move || {
            let mut answers = forebay_status::reload(Some(process), HANG_TIMEOUT).unwrap();
            answers.remove(0).1.unwrap()
        })
    }

    /// Runs `forebay reload` after writing `text`; returns its exit status and what it said.
    fn command(&self, text: &str, arguments: &[&str]) -> (Option<i32>, String) {
        fs::write(self.file, text).unwrap();
        let output = Command::new("ip")
            .args(["netns", "exec", &self.place.0, PROGRAM, "reload"])
            .args(["--process", &self.process.to_string()])
            .args(arguments)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap().trim_end().to_owned())
    }

    fn used(&self) -> Use {
        let path = format!("/proc/{}", self.process);
        let status = fs::read_to_string(format!("{path}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory = memory.trim().trim_end_matches(" kB").parse().unwrap();
        Use { memory, descriptors: fs::read_dir(format!("{path}/fd")).unwrap().count() }
    }

    /// Reads `files` in turns. Each differs from the one before it.
    fn reload_often(&self, files: &[String], times: usize) -> (Use, Duration) {
        // Buffers have grown after the first turns.
        let mut turns = files.iter().cycle();
        for file in turns.by_ref().take(4 * files.len()) {
            assert_eq!(self.reload(file).refused, None);
        }
        let (before, start) = (self.used(), Instant::now());
        for file in turns.take(times) {
            let answer = self.reload(file);
            assert!(answer.refused.is_none() && !answer.changes.is_empty(), "{answer:?}");
        }
        (before, start.elapsed())
    }
}

/// Returns the segments that the hosts of `place` have sent again.
pub(crate) fn sent_again(place: &Namespace) -> u64 {
    let table = run(&format!("ip netns exec {} cat /proc/net/snmp", place.0));
    let mut rows = table.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let at = names.split(' ').position(|name| name == "RetransSegs").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

fn check(what: &str, before: Use, after: Use) {
    eprintln!("{what}: {before:?} before, {after:?} after");
    assert_eq!(after.descriptors, before.descriptors, "{what}");
    assert!(after.memory < before.memory + GROWTH, "{what}: {before:?}, {after:?}");
}

/// The file of the head site, whose peer `branch` is below the rate of the link, so that all of its
/// packets wait here and none at the link.
pub(crate) fn head(policy: &str, prefixes: &str, lab: &str) -> String {
    format!(
        r#"[site]
interface = "fb-out"
listen = "10.9.9.1:28316"
prefixes = ["10.9.1.0/24"]
[[peer]]
name = "branch"
address = "10.9.9.2:28316"
prefixes = [{prefixes}]
key_file = "branch.key"
max_rate = "20 Mbit/s"
policy = {policy}
{lab}"#
    )
}

fn lab(policy: &str, rest: &str) -> String {
    format!(
        r#"[[peer]]
name = "lab"
address = "10.9.9.77:28316"
prefixes = ["10.77.0.0/16"{rest}]
key_file = "lab.key"
policy = "{policy}"
"#
    )
}

/// One of two sites.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Head,
    Branch,
}

/// Two sites over the kernel's queues.
pub(crate) struct Pair {
    pub(crate) head: Process,
    branch: Process,
    pub(crate) sites: Sites,
    files: [PathBuf; 2],
}

impl Pair {
    /// Starts both; `text` is the head site's file.
    pub(crate) fn start(name: &str, text: &str) -> Self {
        // No packet is lost at the link.
        let sites = Sites::with_link_queue(name, 8 << 20);
        sites.stop_receivebox();
        // A super-packet of each connection would take a second in all.
        run(&format!("ip netns exec {} ethtool -K eth0 tso off gso off", sites.from.0));
        let [here, there] = ["head", "branch"].map(|name| sites.dir.0.join(name));
        fs::create_dir(&here).unwrap();
        fs::create_dir(&there).unwrap();
        for name in ["branch", "lab", "other"] {
            let key = here.join(format!("{name}.key"));
            assert!(Command::new(PROGRAM).arg("keygen").arg(key).status().unwrap().success());
        }
        fs::copy(here.join("branch.key"), there.join("head.key")).unwrap();
        fs::copy(here.join("other.key"), there.join("other.key")).unwrap();
        let files = [here.join("site.toml"), there.join("site.toml")];
        fs::write(&files[0], text).unwrap();
        fs::write(&files[1], branch("head.key")).unwrap();
        let head = Self::run(&sites, &sites.router, &files[0]);
        let branch = Self::run(&sites, &sites.to, &files[1]);
        Self { head, branch, sites, files }
    }

    fn run(sites: &Sites, place: &Namespace, file: &Path) -> Process {
        let log = sites.dir.0.join("sendbox.log");
        process::start(place, &["site", "--config", file.to_str().unwrap()], &log)
    }

    /// Ends the process of one end, and starts another.
    pub(crate) fn restart(&mut self, end: End) {
        let Self { sites, files, .. } = self;
        let (process, place, file) = match end {
            End::Head => (&mut self.head, &sites.router, &files[0]),
            End::Branch => (&mut self.branch, &sites.to, &files[1]),
        };
        process.signal(libc::SIGTERM);
        *process = Self::run(sites, place, file);
    }

    /// The process of one end and its namespace.
    pub(crate) fn at(&self, end: End) -> (u32, &Namespace) {
        match end {
            End::Head => (self.head.id(), &self.sites.router),
            End::Branch => (self.branch.id(), &self.sites.to),
        }
    }

    fn head(&self) -> Changing<'_> {
        let (place, process) = (&self.sites.router, self.head.id());
        Changing { place, process, file: &self.files[0] }
    }

    fn branch(&self) -> Changing<'_> {
        let (place, process) = (&self.sites.to, self.branch.id());
        Changing { place, process, file: &self.files[1] }
    }
}

/// The file of the other site.
fn branch(key: &str) -> String {
    format!(
        r#"[site]
interface = "eth0"
listen = "10.9.9.2:28316"
prefixes = ["10.9.9.2/32"]
[[peer]]
name = "head"
address = "10.9.9.1:28316"
prefixes = ["10.9.1.0/24"]
key_file = "{key}"
"#
    )
}

/// Reads the head site's file again and again, while it changes. `judge` gets the stream of
/// packets.
pub(crate) fn reload_over_kernel_queues(times: usize, judge: impl FnOnce(&str, Probe)) {
    let of = |limit| format!("{{ kind = \"sfq\", limit = \"{limit} packets\" }}");
    let (narrow, wide) = ("\"10.9.9.2/32\"", "\"10.9.9.2/32\", \"10.78.0.0/16\"");
    let files = [
        head(&of(6_000), narrow, ""),
        head(&of(6_000), narrow, &lab("fifo", "")),
        head(&of(7_000), narrow, &lab("sfq", "")),
        head(&of(7_000), wide, &lab("sfq", ", \"10.79.0.0/16\"")),
        head(&of(6_000), wide, ""),
    ];
    let mut pair = Pair::start("fy", &files[0]);
    let (sites, box_) = (&pair.sites, pair.head());
    let transfers = Transfers::start(sites, "10.9.9.2", CONNECTIONS);
    sites.wait_for_control();
    transfers.go_on();
    until("the queue is here", || sites.class().is_some_and(|class| class.waiting > 0));
    let probe = Probe::start(&sites.from, &sites.to, "10.9.9.2");
    let noticed = Noticed::new(&transfers, &sites.from, times);
    let (dropped, unlimited) = (sites.class().unwrap().dropped, sites.unlimited());
    let (before, took) = box_.reload_often(&files, times);
    let what = format!("kernel's queues, {times} reloads in {took:.1?}");
    check(&what, before, box_.used());
    assert_eq!(sites.class().unwrap().dropped, dropped, "{what}");
    eprintln!("{what}: {} packets passed without a class", sites.unlimited() - unlimited);
    noticed.print(&what);
    transfers.go_on();
    judge(&what, probe);
    transfers.end();
    assert!(loops_begun(&sites.said(), "branch") <= 1, "{}", sites.said());
    pair.head.signal(libc::SIGTERM);
}

/// Returns how often the control loop of a bundle began, rather than went on, by a log. Where
/// feedback came late, on a busy machine, the first begin has another reason and does not count.
pub(crate) fn loops_begun(log: &str, bundle: &str) -> usize {
    log.matches(&format!("bundle {bundle}: mode open -> delay control: first measured")).count()
}

/// What connections notice of reloads, for the figures of a measurement.
struct Noticed<'a> {
    transfers: &'a Transfers,
    place: &'a Namespace,
    /// The longest time without data in two seconds without reloads, if they were observed.
    usual: Option<Duration>,
    sent_again: u64,
}

impl<'a> Noticed<'a> {
    /// Observes connections from the hosts of `place` from now on.
    fn new(transfers: &'a Transfers, place: &'a Namespace, reloads: usize) -> Self {
        let usual = (reloads > RELOADS).then(|| {
            transfers.forget_stalls();
            thread::sleep(Duration::from_secs(2));
            transfers.forget_stalls()
        });
        transfers.forget_stalls();
        Self { transfers, place, usual, sent_again: sent_again(place) }
    }

    fn print(&self, what: &str) {
        let again = sent_again(self.place) - self.sent_again;
        let stall = self.transfers.forget_stalls();
        eprintln!("{what}: {again} segments sent again, a transfer waited for {stall:.1?} at most");
        if let Some(usual) = self.usual {
            eprintln!("{what}: it waited for {usual:.1?} in two seconds without reloads");
        }
    }
}

#[test]
fn a_key_changes_in_steps_and_a_removed_queue_goes_when_empty() {
    if !has_root() {
        return;
    }
    let (policy, prefixes) = ("\"sfq\"", "\"10.9.9.2/32\"");
    let text = head(policy, prefixes, "");
    let pair = Pair::start("fx", &text);
    let transfers = Transfers::start(&pair.sites, "10.9.9.2", FILLING);
    pair.sites.wait_for_control();
    let said = |text: &str| pair.sites.said().matches(text).count();
    let status = || {
        let text = run(&format!("ip netns exec {} {PROGRAM} status --json", pair.sites.router.0));
        let mut all: Vec<Status> = serde_json::from_str(&text).unwrap();
        all.remove(0).sends.remove(0)
    };
    let feedback_counts = || {
        let before = status().measurements;
        until("feedback counts", || status().measurements > before + 50);
    };
    let rekeyed = text.replace("branch.key", "other.key");
    assert_eq!(pair.head().reload(&rekeyed).changes, ["branch: another key"]);
    feedback_counts();
    transfers.go_on();
    assert_eq!(said("the new key is in use"), 0, "{}", pair.sites.said());
    assert_eq!(pair.branch().reload(&branch("other.key")).changes, ["head: another key"]);
    until("both ends use the new key in both directions", || {
        ["branch", "head"].iter().all(|of| said(&format!("{of}: the new key is in use")) == 2)
    });
    feedback_counts();
    transfers.go_on();
    assert!(loops_begun(&pair.sites.said(), "branch") <= 1, "{}", pair.sites.said());
    assert_eq!(status().trouble, None);

    // The queue of a removed bundle goes when it is empty.
    until("the queue is here", || pair.sites.class().is_some_and(|class| class.waiting > 0));
    let others = &text[..text.find("[[peer]]").unwrap()];
    let answer = pair.head().reload(&format!("{others}{}", lab("fifo", "")));
    assert_eq!(answer.changes, ["lab: added", "branch: removed"]);
    until("the queue goes", || pair.sites.class().is_none());
    assert!(pair.sites.class_of(2).is_some(), "the new bundle has another number");
    transfers.go_on();
    transfers.end();
}

#[test]
fn a_hundred_reloads_lose_nothing_over_the_kernels_queues() {
    if has_root() {
        reload_over_kernel_queues(RELOADS, |_, probe| probe.assert_none_lost());
    }
}

/// The file of a sendbox in the cable.
pub(crate) fn wire_file(method: &str, policy: &str, lab: &str) -> String {
    format!(
        r#"[sendbox]
method = "{method}"
inside = "fb-in"
outside = "fb-out"
listen = "10.9.6.3:28316"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.6.2/32"]
receivebox = "10.9.6.2:28317"
key_file = "key"
max_rate = "20 Mbit/s"
policy = {policy}
{lab}"#
    )
}

fn wire_lab(policy: &str) -> String {
    format!(
        "[[bundle]]\nname = \"lab\"\nid = 2\nprefixes = [\"10.77.0.0/16\"]\nreceivebox = \
         \"10.9.6.2:28317\"\nkey_file = \"key\"\npolicy = \"{policy}\"\n"
    )
}

pub(crate) const WIRE_RECEIVEBOX: &str = r#"[receivebox]
interface = "eth0"
listen = "10.9.6.2:28317"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.6.2/32"]
sources = ["10.9.6.1/32"]
sendbox = "10.9.6.3:28316"
key_file = "key"
"#;

/// Reads the file of a sendbox in the cable again and again, while it changes. Waiting packets move
/// between queues of two kinds. `judge` gets the stream of packets.
pub(crate) fn reload_in_user_space(
    (method, queues): (&str, u32),
    times: usize,
    [one, other]: [&str; 2],
    judge: impl FnOnce(&str, Probe),
) {
    let span = Span::with_queues("fy", method, queues);
    // The hosts' own queues have room for what all connections send at once.
    for host in [&span.from.0, &span.to.0] {
        run(&format!(
            "tc -n {host} qdisc replace dev eth0 root tbf rate 60mbit burst 32k latency 2s"
        ));
    }
    let log = span.dir.0.join("receivebox.log");
    let receivebox = span.dir.file("receivebox.toml", WIRE_RECEIVEBOX, 0o644);
    let arguments = ["receivebox", "--config", receivebox.to_str().unwrap()];
    let _receivebox = process::start(&span.to, &arguments, &log);
    let of = |kind, limit| format!("{{ kind = \"{kind}\", limit = \"{limit} packets\" }}");
    let files = [
        wire_file(method, &of(one, 7_000), &wire_lab("fq_codel")),
        wire_file(method, &of(other, 6_000), &wire_lab("fq_codel")),
        wire_file(method, &of(other, 6_000), ""),
        wire_file(method, &of(one, 6_000), &wire_lab("fifo")),
    ];
    let file = span.dir.file("sendbox.toml", &files[0], 0o644);
    let mut command = span.command(("sendbox", &[]), "");
    let said = span.dir.0.join("sendbox.log");
    let mut running = Process::start_ready(command.stderr(fs::File::create(&said).unwrap()));
    let box_ = Changing { place: &span.middle, process: running.id(), file: &file };
    let transfers = Transfers::between(&span.from, &span.to, TO, CONNECTIONS);
    let state = || {
        let text = run(&format!("ip netns exec {} {PROGRAM} status --json", span.middle.0));
        let mut all: Vec<Status> = serde_json::from_str(&text).unwrap();
        all.remove(0).sends.remove(0)
    };
    until("the queue is here", || {
        let state = state();
        state.rate_bps.is_some() && state.backlog_bytes >= 30_000
    });
    transfers.go_on();
    let probe = Probe::start(&span.from, &span.to, TO);
    let noticed = Noticed::new(&transfers, &span.from, times);
    let dropped = state().dropped;
    let (before, took) = box_.reload_often(&files, times);
    let what = format!("{method}, {queues} queues, {times} reloads in {took:.1?}");
    check(&what, before, box_.used());
    assert_eq!(state().dropped, dropped, "{what}");
    noticed.print(&what);
    transfers.go_on();
    judge(&what, probe);
    transfers.end();
    let said = fs::read_to_string(said).unwrap();
    assert!(loops_begun(&said, "b") <= 1, "{said}");
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
}

#[test]
fn a_hundred_reloads_lose_nothing_in_user_space() {
    if has_root() {
        for wire in WIRES {
            reload_in_user_space(wire, RELOADS, ["sfq", "fifo"], |_, probe| {
                probe.assert_none_lost();
            });
        }
    }
}

#[test]
fn a_refused_file_changes_nothing_and_the_command_says_why() {
    if !has_root() {
        return;
    }
    let span = Span::new("fz");
    let good = wire_file("packet", "\"fifo\"", "");
    let file = span.dir.file("sendbox.toml", &good, 0o644);
    let mut command = span.command(("sendbox", &[]), "");
    let said = span.dir.0.join("sendbox.log");
    let mut running = Process::start_ready(command.stderr(fs::File::create(&said).unwrap()));
    let box_ = Changing { place: &span.middle, process: running.id(), file: &file };
    let shown = file.display();
    let restart = "cannot change in a running process: restart it to apply the file";
    for (text, expected) in [
        (good.replace("fifo", "fifi"), format!("{shown}:13: bundle.policy: ")),
        (good.replace("\"key\"", "\"none\""), format!("{shown}:11: bundle.key_file: ")),
        (good.replace("6.3:28316", "6.3:28317"), format!("sendbox.listen {restart}")),
        (good.replace("\"packet\"", "\"auto\""), format!("sendbox.method {restart}")),
        (
            good.replace("10.9.6.2:28317", "nowhere.example:28317"),
            format!(
                "{shown}:10: bundle.receivebox: a process that started without a host name resolves"
            ),
        ),
        (
            good.replace("\"fifo\"", "{ kind = \"fifo\", limit = \"90000 packets\" }"),
            "the queues could hold 90000 packets, and the running process has memory for 17634"
                .into(),
        ),
        (String::new(), format!("{shown}:1: ")),
    ] {
        let (status, said) = box_.command(&text, &[]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.starts_with(&format!("forebay: {expected}")), "{said}\n{expected}");
        assert!(said.ends_with("; nothing changed") && said.lines().count() == 1, "{said}");
        let log = fs::read_to_string(box_.file.with_file_name("sendbox.log")).unwrap();
        assert!(log.contains(said.trim_start_matches("forebay: ")), "{log}");
    }
    assert_eq!(box_.command(&good, &[]), (Some(0), "nothing changed".to_owned()));
    let other = wire_file("packet", "\"fq_codel\"", &wire_lab("sfq"));
    let words = "b: policy fifo to fq_codel; lab: added".to_owned();
    assert_eq!(box_.command(&other, &[]), (Some(0), words));
    let (status, json) = box_.command(&good, &["--json"]);
    let all: Vec<Reloaded> = serde_json::from_str(&json).unwrap();
    assert_eq!((status, all.len(), &all[0].refused), (Some(0), 1, &None));
    assert_eq!(all[0].changes, ["b: policy fq_codel to fifo", "lab: removed"]);

    // SIGHUP asks for the same.
    fs::write(&file, &other).unwrap();
    running.send(libc::SIGHUP);
    until("the file is applied", || {
        fs::read_to_string(&said).unwrap().matches("lab: added").count() == 2
    });
    running.assert_alive();
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
    let (status, said) = box_.command(&good, &[]);
    assert_eq!(status, Some(1));
    assert!(said.contains("is no site, sendbox or receivebox of this"), "{said}");
}
