//! Two sites with a sendbox, a receivebox and a bottleneck between them, and functions that observe
//! them.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use forebay_test_support::Dir;
use forebay_test_support::namespace::{Namespace, run};
use forebay_test_support::process::program;

use super::process::{self, Process};
use super::{HANG_TIMEOUT, PROGRAM, forebay_in, until};

/// A site, its router with the sendbox, a link of 24 Mbit/s and 40 ms, and the other site.
pub(crate) struct Sites {
    pub(crate) from: Namespace,
    pub(crate) router: Namespace,
    pub(crate) to: Namespace,
    pub(crate) path: Namespace,
    pub(crate) dir: Dir,
    _link: Process,
    receivebox: RefCell<Process>,
}

impl Sites {
    pub(crate) fn new(name: &str) -> Self {
        Self::with_link_queue(name, 240_000)
    }

    /// The same with a queue of this number of bytes at the link. A long one holds what arrives
    /// while a busy machine lets the link wait.
    pub(crate) fn with_link_queue(name: &str, limit: u64) -> Self {
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
        // The link takes frames as on a wire. The site and the router use super-packets, down to
        // below the router's queue, where the kernel segments them for a device without offloads.
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
            (&from, "eth0", "fd09:1::2/64 nodad"),
            (&router, "fb-in", "fd09:1::1/64 nodad"),
            (&router, "fb-out", "fd09:9::1/64 nodad"),
            (&to, "eth0", "fd09:9::2/64 nodad"),
        ] {
            run(&format!("ip -n {} address add {address} dev {device}", place.0));
        }
        for key in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            run(&format!("ip netns exec {} sysctl -qw {key}", router.0));
        }
        for (place, gateway) in
            [(&from, "10.9.1.1"), (&from, "fd09:1::1"), (&to, "10.9.9.1"), (&to, "fd09:9::1")]
        {
            run(&format!("ip -n {} route add default via {gateway}", place.0));
        }
        let dir = Dir::new(name);
        let key = dir.0.join("key");
        assert!(Command::new(PROGRAM).arg("keygen").arg(&key).status().unwrap().success());
        let link = format!(
            r#"{{"left":"fb-left","right":"fb-right","others":[],"rate_bps":24000000,"delay_ns":20000000,"neck":{{"by":"forebay","queue":{{"kind":"fifo","limit_bytes":{1}}}}},"packet_log":"{0}/packets","packet_limit":1000,"counters":"{0}/counters"}}"#,
            dir.0.display(),
            limit
        );
        let log = dir.0.join("others.log");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &path.0]).arg(program("forebay-lab")).arg("link-emulator");
        let link = Process::start_logging(&mut command, &link, &log);
        let receivebox = dir.file("receivebox.toml", RECEIVEBOX, 0o644);
        let arguments = ["receivebox", "--config", receivebox.to_str().unwrap()];
        let receivebox = process::start(&to, &arguments, &log);
        dir.file("sendbox.toml", SENDBOX, 0o644);
        let receivebox = RefCell::new(receivebox);
        Self { from, router, to, path, dir, _link: link, receivebox }
    }

    /// The number of the receivebox's process.
    pub(crate) fn receivebox_id(&self) -> u32 {
        self.receivebox.borrow().id()
    }

    pub(crate) fn stop_receivebox(&self) {
        self.receivebox.borrow_mut().signal(libc::SIGTERM);
    }

    /// Starts another receivebox with this configuration.
    pub(crate) fn restart_receivebox(&self, text: &str) {
        self.stop_receivebox();
        let file = self.dir.file("receivebox.toml", text, 0o644);
        let arguments = ["receivebox", "--config", path(&file)];
        let log = self.dir.0.join("others.log");
        *self.receivebox.borrow_mut() = process::start(&self.to, &arguments, &log);
    }

    pub(crate) fn sendbox(&self) -> Process {
        let file: PathBuf = self.dir.0.join("sendbox.toml");
        let log = self.dir.0.join("sendbox.log");
        process::start(&self.router, &["sendbox", "--config", path(&file)], &log)
    }

    /// A sendbox that remembers paths in the file `sendbox-fb-out.paths` of the test's directory.
    pub(crate) fn remembering_sendbox(&self) -> Process {
        let (file, log) = (self.dir.0.join("sendbox.toml"), self.dir.0.join("sendbox.log"));
        let mut command = forebay_in(&self.router, &["sendbox", "--config", path(&file)]);
        Process::start_logging(command.env("RUNTIME_DIRECTORY", &self.dir.0), "", &log)
    }

    /// The logs of all sendboxes so far; nothing before the first one starts.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.dir.0.join("sendbox.log")).unwrap_or_default()
    }

    /// The logs of all boxes and of the link so far.
    pub(crate) fn all_said(&self) -> String {
        let others = fs::read_to_string(self.dir.0.join("others.log")).unwrap();
        format!("{}receivebox and link:\n{others}", self.said())
    }

    /// A counter of one of the router's devices, from `/sys/class/net/DEV/statistics`.
    pub(crate) fn count(&self, device: &str, counter: &str) -> u64 {
        let file = format!("/sys/class/net/{device}/statistics/{counter}");
        let text = run(&format!("ip netns exec {} cat {file}", self.router.0));
        text.trim().parse().unwrap()
    }

    /// The output of `tc`; `arguments` name the device as `{}`.
    pub(crate) fn tc(&self, arguments: &str) -> String {
        run(&format!("tc -n {} {}", self.router.0, arguments.replace("{}", "dev fb-out")))
    }

    /// Rate and counters of the first bundle's class.
    pub(crate) fn class(&self) -> Option<Class> {
        self.class_of(1)
    }

    /// Rate and counters of the class of the bundle with this number, counted from 1.
    pub(crate) fn class_of(&self, bundle: usize) -> Option<Class> {
        let text = self.tc("-s class show {}");
        let at = text.find(&format!("class htb fb0:{bundle} "))?;
        let words: Vec<_> = text[at..].split_whitespace().collect();
        let after = |word: &str| words.iter().position(|w| *w == word).map(|i| words[i + 1]);
        let number = |word: Option<&str>| {
            word.map(|w| w.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap())
        };
        let packets = words.iter().position(|w| w.starts_with("pkt")).map(|i| words[i - 1]);
        let dropped = words.iter().position(|w| *w == "(dropped").map(|i| words[i + 1]);
        let waiting = words.iter().position(|w| *w == "backlog").map(|i| words[i + 2]);
        Some(Class {
            mbps: mbps(after("rate")?),
            sent: number(packets)?,
            dropped: number(dropped)?,
            waiting: number(waiting)?,
        })
    }

    /// Waits until the bundle's rate is near the link's rate. Traffic must fill the link.
    pub(crate) fn wait_for_control(&self) {
        let rate = || self.class().map(|c| c.mbps);
        let start = Instant::now();
        while !rate().is_some_and(|mbps| (12.0..30.0).contains(&mbps)) {
            let rate = rate();
            assert!(
                start.elapsed() < HANG_TIMEOUT,
                "24 Mbit/s, not {rate:?}:\n{}",
                self.all_said()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The packets that passed the router's queues without a class, and so without a limit.
    pub(crate) fn unlimited(&self) -> u64 {
        let text = self.tc("-s qdisc show {}");
        let mut words = text.split_whitespace().skip_while(|w| *w != "direct_packets_stat");
        words.nth(1).unwrap().parse().unwrap()
    }

    /// Waits until packets pass the router's queues without a limit.
    pub(crate) fn wait_for_bypass(&self) {
        let before = self.unlimited();
        // The sendbox's own messages, and packets of no bundle, are far fewer.
        until("no packet is limited", || self.unlimited() > before + 100);
    }
}

pub(crate) struct Class {
    pub(crate) mbps: f64,
    /// Packets that were sent.
    pub(crate) sent: u64,
    /// Packets that were dropped because the queue was full.
    pub(crate) dropped: u64,
    /// Packets in the queue now.
    pub(crate) waiting: u64,
}

/// Parses a rate as `tc` prints it, into Mbit/s.
fn mbps(text: &str) -> f64 {
    let (number, scale) = match text.trim_end_matches("bit") {
        t if t.ends_with('G') => (t, 1e3),
        t if t.ends_with('M') => (t, 1.0),
        t if t.ends_with('K') => (t, 1e-3),
        t => (t, 1e-6),
    };
    number.trim_end_matches(['G', 'M', 'K']).parse::<f64>().unwrap() * scale
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) const SENDBOX: &str = r#"[sendbox]
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

pub(crate) const RECEIVEBOX: &str = r#"[receivebox]
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
