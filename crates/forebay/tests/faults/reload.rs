//! Tests boxes that read their files again and again while traffic passes. Nothing may be lost.

use std::fs;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use forebay_records::{RELOAD_SOCKET, Reloaded, Status};

use crate::namespace::{Namespace, has_root, run, within};
use crate::probe::Probe;
use crate::sites::{PROGRAM, Process, Sites, until};
use crate::span::{METHODS, Running, Span, TO, WIRES};
use crate::transfer::{FILLING, Transfers};

/// The reloads of a test, and those of the measurement.
const FEW: usize = 100;
const MANY: usize = 10_000;
/// The connections of a test, and those of the measurement.
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
        let answer = within(&self.place.0, move || {
            let name = format!("{RELOAD_SOCKET}{process}");
            let address = SocketAddr::from_abstract_name(name).unwrap();
            let mut stream = UnixStream::connect_addr(&address).unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).unwrap();
            text
        });
        serde_json::from_slice(&answer).unwrap()
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
        let sites = Sites::new(name);
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
        Process::start(place, &["site", "--config", file.to_str().unwrap()], "", &log)
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

/// Two sites, of which the head site's file changes.
fn kernel(times: usize) {
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
    let (again, dropped) = (sent_again(&sites.from), sites.class().unwrap().dropped);
    let unlimited = sites.unlimited();
    let probe = Probe::start(&sites.from, &sites.to, "10.9.9.2");
    // As long as a hundred reloads take.
    transfers.forget_stalls();
    thread::sleep(Duration::from_secs(2));
    let usual = transfers.forget_stalls();
    let (before, took) = box_.reload_often(&files, times);
    let what = format!("kernel's queues, {times} reloads in {took:.1?}");
    check(&what, before, box_.used());
    let waiting = sites.class().unwrap();
    let again = sent_again(&sites.from) - again;
    let stall = transfers.forget_stalls();
    transfers.go_on();
    let passed = probe.end();
    transfers.end();
    eprintln!(
        "{what}: {} dropped, {again} segments sent again, a transfer waited for {stall:.1?} at \
         most, and {usual:.1?} in two seconds without reloads",
        waiting.dropped - dropped
    );
    passed.check(&what);
    let decided = sites.said();
    let decided = decided.lines().filter(|line| line.contains(" mode ") || line.contains("WARN"));
    decided.for_each(|line| eprintln!("{line}"));
    eprintln!("{} packets passed without a class", sites.unlimited() - unlimited);
    assert_eq!(passed.lost(), 0, "{what}");
    assert_eq!(waiting.dropped, dropped, "{what}");
    // The control loop of the branch was never started again.
    let starts = sites.said().matches("bundle branch: mode open -> ").count();
    assert_eq!(starts, 1, "{}", sites.said());
    pair.head.signal(libc::SIGTERM);
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
    let rekeyed = text.replace("branch.key", "other.key");
    assert_eq!(pair.head().reload(&rekeyed).changes, ["branch: another key"]);
    // Longer than a bundle stays limited without feedback.
    thread::sleep(Duration::from_secs(3));
    transfers.go_on();
    assert_eq!(said("the new key is in use"), 0, "{}", pair.sites.said());
    assert_eq!(pair.branch().reload(&branch("other.key")).changes, ["head: another key"]);
    until("both ends use the new key in both directions", || {
        ["branch", "head"].iter().all(|of| said(&format!("{of}: the new key is in use")) == 2)
    });
    thread::sleep(Duration::from_secs(3));
    transfers.go_on();
    assert_eq!(said("bundle branch: mode delay control -> "), 0, "{}", pair.sites.said());
    let status = run(&format!("ip netns exec {} {PROGRAM} status --json", pair.sites.router.0));
    let all: Vec<Status> = serde_json::from_str(&status).unwrap();
    let send = &all[0].sends[0];
    assert_eq!((send.mode.as_str(), &send.trouble), ("delay control", &None), "{status}");

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
        kernel(FEW);
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

/// A sendbox in the cable, whose file changes. Waiting packets move between queues of two kinds.
fn wire(method: &str, queues: u32, times: usize, [one, other]: [&str; 2]) {
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
    let _receivebox = Process::start(&span.to, &arguments, "", &log);
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
    let mut running = Running::start_with(command.stderr(fs::File::create(&said).unwrap()));
    let box_ = Changing { place: &span.middle, process: running.0.id(), file: &file };
    let transfers = Transfers::between(&span.from, &span.to, TO, CONNECTIONS);
    let rate = || {
        let text = run(&format!("ip netns exec {} {PROGRAM} status --json", span.middle.0));
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let bundle = &all[0]["sends"][0];
        (bundle["rate_bps"].as_u64(), bundle["backlog_bytes"].as_u64(), bundle["dropped"].as_u64())
    };
    until("the queue is here", || matches!(rate(), (Some(_), Some(30_000..), _)));
    transfers.go_on();
    let (again, dropped) = (sent_again(&span.from), rate().2);
    let probe = Probe::start(&span.from, &span.to, TO);
    // As long as a hundred reloads take.
    transfers.forget_stalls();
    thread::sleep(Duration::from_secs(2));
    let usual = transfers.forget_stalls();
    let (before, took) = box_.reload_often(&files, times);
    let what = format!("{method}, {queues} queues, {times} reloads in {took:.1?}");
    check(&what, before, box_.used());
    assert_eq!(rate().2, dropped, "{what}");
    let again = sent_again(&span.from) - again;
    let stall = transfers.forget_stalls();
    transfers.go_on();
    let passed = probe.end();
    transfers.end();
    eprintln!(
        "{what}: {again} segments sent again, a transfer waited for {stall:.1?} at most, and \
         {usual:.1?} in two seconds without reloads"
    );
    assert_eq!(passed.lost(), 0, "{what}");
    passed.check(&what);
    let said = fs::read_to_string(said).unwrap();
    assert_eq!(said.matches("bundle b: mode open -> ").count(), 1, "{said}");
    assert_eq!(running.signal(libc::SIGTERM), Some(0));
}

#[test]
fn a_hundred_reloads_lose_nothing_in_user_space() {
    if has_root() {
        WIRES.iter().for_each(|(method, queues)| wire(method, *queues, FEW, ["sfq", "fifo"]));
    }
}

/// The figures of decision 48. It takes some minutes.
#[test]
#[ignore = "a measurement"]
fn ten_thousand_reloads() {
    if has_root() {
        kernel(MANY);
        // With a FIFO among them, connections would wait for its order.
        METHODS.iter().for_each(|method| wire(method, 1, MANY, ["sfq", "sfq"]));
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
    let mut running = Running::start_with(command.stderr(fs::File::create(&said).unwrap()));
    let box_ = Changing { place: &span.middle, process: running.0.id(), file: &file };
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
