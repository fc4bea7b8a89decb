//! A sendbox over the kernel's queues: the real command below the kernel's TCP, with the
//! laboratory's link for a bottleneck. Without root these say so and pass.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "../../dataplane/tests/namespace/mod.rs"]
mod namespace;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::Dir;
use namespace::{Namespace, needs_root, run, within};

/// How long the slow machines of a test wait for what should happen soon.
const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
/// The bundle's class, as `tc` calls it.
const CLASS: &str = "fb0:1";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process in a namespace, ended with this value.
struct Process(Child);

impl Process {
    /// Starts `forebay` with `arguments`, tells it `input`, and waits until it is ready.
    fn start(namespace: &Namespace, arguments: &[&str], input: &str) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &namespace.0, PROGRAM])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The link ends with its input, so that stays open.
        let stdin = child.stdin.as_mut().unwrap();
        writeln!(stdin, "{input}").unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{arguments:?}: {ready}");
        Self(child)
    }

    fn signal(&mut self, signal: i32) {
        // SAFETY: integers; the process is this test's child, which was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A site, its router with the sendbox, a link of 24 Mbit/s and 40 ms, and another site.
struct Sites {
    from: Namespace,
    router: Namespace,
    to: Namespace,
    _path: Namespace,
    dir: Dir,
    _boxes: Vec<Process>,
}

impl Sites {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let [from, router, path, to] =
            ["a", "r", "p", "b"].map(|n| Namespace::new(format!("fb-{name}{id}-{n}")));
        for (one, a, other, b) in [
            (&from, "eth0", &router, "fb-in"),
            (&router, "fb-out", &path, "fb-left"),
            (&path, "fb-right", &to, "eth0"),
        ] {
            let (one, other) = (&one.0, &other.0);
            run(&format!("ip -n {one} link add {a} type veth peer name {b} netns {other}"));
            run(&format!("ip -n {one} link set {a} up"));
            run(&format!("ip -n {other} link set {b} up"));
        }
        // The link takes frames as they are on a wire. The site and the router have theirs large, down
        // to below the router's queue, where the kernel cuts them up for a device that cannot.
        let wire = "tso off gso off gro off tx off rx off";
        for (place, device, offloads) in [
            (&router, "fb-out", "tx off"),
            (&path, "fb-left", wire),
            (&path, "fb-right", wire),
            (&to, "eth0", wire),
        ] {
            run(&format!("ip netns exec {} ethtool -K {device} {offloads}", place.0));
        }
        for (place, device, address) in [
            (&from, "eth0", "10.9.1.2/24"),
            (&router, "fb-in", "10.9.1.1/24"),
            (&router, "fb-out", "10.9.9.1/24"),
            (&to, "eth0", "10.9.9.2/24"),
            (&to, "eth0", "10.9.9.3/24"),
        ] {
            run(&format!("ip -n {} address add {address} dev {device}", place.0));
        }
        run(&format!("ip netns exec {} sysctl -qw net.ipv4.ip_forward=1", router.0));
        run(&format!("ip -n {} route add default via 10.9.1.1", from.0));
        run(&format!("ip -n {} route add default via 10.9.9.1", to.0));
        let dir = Dir::new(name);
        let key = dir.0.join("key");
        assert!(Command::new(PROGRAM).arg("keygen").arg(&key).status().unwrap().success());
        let link = format!(
            r#"{{"left":"fb-left","right":"fb-right","others":[],"rate_bps":24000000,"delay_ns":20000000,"neck":{{"by":"forebay","queue":{{"kind":"fifo","limit_bytes":240000}}}},"packet_log":"{0}/packets","packet_limit":1000,"counters":"{0}/counters"}}"#,
            dir.0.display()
        );
        let link = Process::start(&path, &["link-emulator"], &link);
        let receivebox = dir.file("receivebox.toml", RECEIVEBOX, 0o644);
        let arguments = ["receivebox", "--config", receivebox.to_str().unwrap()];
        let receivebox = Process::start(&to, &arguments, "");
        dir.file("sendbox.toml", SENDBOX, 0o644);
        Self { from, router, to, _path: path, dir, _boxes: vec![link, receivebox] }
    }

    fn sendbox(&self) -> Process {
        let file: PathBuf = self.dir.0.join("sendbox.toml");
        Process::start(&self.router, &["sendbox", "--config", path(&file)], "")
    }

    /// One connection that always has something to send; what it has received.
    fn transfer(&self) -> Arc<AtomicU64> {
        let listener = within(&self.to.0, || TcpListener::bind("10.9.9.2:0").unwrap());
        let address = listener.local_addr().unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let mut stream = within(&self.from.0, move || TcpStream::connect(address).unwrap());
        // It ends when the namespaces go.
        thread::spawn(move || while stream.write_all(&[0x5a; 1 << 16]).is_ok() {});
        received
    }

    /// What `tc` says; `arguments` name the device as `{}`.
    fn tc(&self, arguments: &str) -> String {
        run(&format!("tc -n {} {}", self.router.0, arguments.replace("{}", "dev fb-out")))
    }

    /// The bundle's rate, packets that left and packets that wait.
    fn class(&self) -> Option<Class> {
        let text = self.tc("-s class show {}");
        let at = text.find(&format!("class htb {CLASS} "))?;
        let words: Vec<_> = text[at..].split_whitespace().collect();
        let after = |word: &str| words.iter().position(|w| *w == word).map(|i| words[i + 1]);
        let number = |word: Option<&str>| {
            word.map(|w| w.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap())
        };
        let packets = words.iter().position(|w| w.starts_with("pkt")).map(|i| words[i - 1]);
        let waiting = words.iter().position(|w| *w == "backlog").map(|i| words[i + 2]);
        Some(Class {
            mbps: mbps(after("rate")?),
            sent: number(packets)?,
            waiting: number(waiting)?,
        })
    }

    /// Whether the bundle is held near the link's rate.
    fn is_controlled(&self) -> bool {
        self.class().is_some_and(|c| (12.0..30.0).contains(&c.mbps))
    }

    fn supervisors(&self) -> usize {
        let pids = run(&format!("ip netns pids {}", self.router.0));
        let line = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_one = |pid: &&str| line(pid).split(|b| *b == 0).any(|word| word == b"supervisor");
        pids.lines().filter(is_one).count()
    }
}

struct Class {
    mbps: f64,
    sent: u64,
    waiting: u64,
}

/// `tc`'s way to write a rate.
fn mbps(text: &str) -> f64 {
    let (number, scale) = match text.trim_end_matches("bit") {
        t if t.ends_with('G') => (t, 1e3),
        t if t.ends_with('M') => (t, 1.0),
        t if t.ends_with('K') => (t, 1e-3),
        t => (t, 1e-6),
    };
    number.trim_end_matches(['G', 'M', 'K']).parse::<f64>().unwrap() * scale
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

const SENDBOX: &str = r#"[sendbox]
dataplane = "kernel"
outside = "fb-out"
listen = "10.9.9.1:28316"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.9.2/32"]
receivebox = "10.9.9.3:28317"
key_file = "key"
"#;

const RECEIVEBOX: &str = r#"[receivebox]
interface = "eth0"
listen = "10.9.9.3:28317"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.9.2/32"]
sources = ["10.9.1.0/24"]
sendbox = "10.9.9.1:28316"
key_file = "key"
"#;

#[test]
fn the_kernel_s_queues_are_controlled_through_death_and_damage() {
    if !needs_root() {
        return;
    }
    let sites = Sites::new("kq");
    let mut sendbox = sites.sendbox();
    assert_eq!(sites.supervisors(), 1);
    let received = sites.transfer();
    let goes_on = || {
        let before = received.load(Ordering::Relaxed);
        until("the connection goes on", || received.load(Ordering::Relaxed) > before + (1 << 20));
    };
    until("the rate follows the link", || sites.is_controlled());
    until("the queue is here", || sites.class().is_some_and(|c| c.waiting > 0));
    goes_on();

    sendbox.signal(libc::SIGKILL);
    until("the limit is lifted", || sites.class().unwrap().mbps > 1_000.0);
    until("the supervisor ends", || sites.supervisors() == 0);
    goes_on();

    let before = sites.class().unwrap().sent;
    assert!(before > 0);
    let mut sendbox = sites.sendbox();
    assert!(sites.class().unwrap().sent >= before, "the tree is adopted, not made anew");
    until("the rate follows the link again", || sites.is_controlled());
    goes_on();

    sites.tc("qdisc del {} root");
    until("the tree is made again and the rate set", || sites.is_controlled());
    goes_on();

    sendbox.signal(libc::SIGTERM);
    assert_eq!(sites.supervisors(), 0);
    assert!(!sites.tc("qdisc show {}").contains("htb"), "{}", sites.tc("qdisc show {}"));
    goes_on();
}

#[test]
fn somebody_else_s_queues_are_left_alone_unless_it_is_told() {
    if !needs_root() {
        return;
    }
    let sites = Sites::new("kt");
    sites.tc("qdisc add {} root handle 7: pfifo limit 77");
    let file = sites.dir.0.join("sendbox.toml");
    let output = Command::new("ip")
        .args(["netns", "exec", &sites.router.0, PROGRAM, "sendbox", "--config", path(&file)])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("already has queues that are not ours (pfifo 7:)"), "{said}");
    assert!(sites.tc("qdisc show {}").contains("pfifo 7:"));

    let text = SENDBOX.replacen("[sendbox]\n", "[sendbox]\ntake_over = true\n", 1);
    sites.dir.file("sendbox.toml", &text, 0o644);
    let mut sendbox = sites.sendbox();
    assert!(sites.tc("qdisc show {}").contains("htb fb0:"));
    sendbox.signal(libc::SIGTERM);
    let after = sites.tc("qdisc show {}");
    assert!(after.contains("pfifo 7:") && after.contains("limit 77p"), "{after}");
}
