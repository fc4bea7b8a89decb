//! Two hosts and a box between them that moves the packets itself.

use std::process::{Command, Stdio};

use forebay_test_support::Dir;
use forebay_test_support::namespace::{Namespace, run};

use crate::support::PROGRAM;
use crate::support::process::Process;
use crate::support::transfer::{FILLING, Transfers};

/// The address of the second host.
pub(crate) const TO: &str = "10.9.6.2";

/// The two kinds of boxes, with the files that each writes.
pub(crate) const BOXES: [(&str, &[&str]); 2] = [
    ("sendbox", &["packet-log", "tick-log", "event-log", "counters"]),
    ("link", &["packet-log", "statistics", "counters"]),
];

/// The two ways in which a box moves frames (`method`).
pub(crate) const METHODS: [&str; 2] = ["xdp", "packet"];

/// The same with the queues of each interface: over several, several threads move frames.
pub(crate) const WIRES: [(&str, u32); 3] = [("xdp", 1), ("packet", 1), ("xdp", 2)];

const CONFIGURATIONS: [(&str, &str); 2] = [
    (
        "sendbox",
        r#"[sendbox]
inside = "fb-in"
outside = "fb-out"
listen = "10.9.6.3:28316"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.6.2/32"]
receivebox = "10.9.6.2:28317"
key_file = "key"
"#,
    ),
    ("link", "[link]\ninside = \"fb-in\"\noutside = \"fb-out\"\nrate = \"100 Mbit/s\"\n"),
];

pub(crate) struct Span {
    pub(crate) from: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) to: Namespace,
    pub(crate) dir: Dir,
    /// The queues of each interface in each direction.
    queues: u32,
}

impl Span {
    pub(crate) fn new(name: &str) -> Self {
        Self::over(name, "auto")
    }

    /// The same, for a box with this `method`.
    pub(crate) fn over(name: &str, method: &str) -> Self {
        Self::with_queues(name, method, 1)
    }

    /// The same over interfaces with this number of queues.
    pub(crate) fn with_queues(name: &str, method: &str, queues: u32) -> Self {
        let id = std::process::id();
        let [from, middle, to] =
            ["a", "m", "b"].map(|n| Namespace::new(format!("fb-{name}{id}-{n}")));
        let span = Self { from, middle, to, dir: Dir::new(name), queues };
        span.connect(1);
        span.connect(2);
        let key = span.dir.0.join("key");
        assert!(Command::new(PROGRAM).arg("keygen").arg(&key).status().unwrap().success());
        for (kind, text) in CONFIGURATIONS {
            let table = format!("[{kind}]\n");
            let text = text.replacen(&table, &format!("{table}method = \"{method}\"\n"), 1);
            span.dir.file(&format!("{kind}.toml"), &text, 0o644);
        }
        span
    }

    /// Connects host 1 or 2 with the box. An earlier connection must be gone.
    pub(crate) fn connect(&self, number: usize) {
        let middle = &self.middle.0;
        let (host, port) = [(&self.from.0, "fb-in"), (&self.to.0, "fb-out")][number - 1];
        // The addresses stay the same when the interfaces are made again.
        let macs = [0, 1].map(|end| format!("02:00:00:09:0{end}:0{number}"));
        let queues = format!("numtxqueues {0} numrxqueues {0}", self.queues);
        let peer = format!("{port} address {} {queues} netns {middle}", macs[1]);
        let own = format!("eth0 address {} {queues}", macs[0]);
        run(&format!("ip -n {host} link add {own} type veth peer name {peer}"));
        // A veth accepts the frames that a program redirects only if its peer has GRO on.
        for (place, device, gro) in [(host, "eth0", "on"), (middle, port, "off")] {
            let offloads = format!("tso off gso off gro {gro} tx off rx off");
            run(&format!("ip netns exec {place} ethtool -K {device} {offloads}"));
        }
        run(&format!("ip -n {host} address add 10.9.6.{number}/24 dev eth0"));
        if number == 2 {
            run(&format!("ip -n {middle} address add 10.9.6.3/24 dev fb-out"));
        }
        // The data in flight shall not need all of this machine's processor time.
        let rate = "rate 60mbit burst 32k latency 40ms";
        run(&format!("tc -n {host} qdisc add dev eth0 root tbf {rate}"));
        for (place, device) in [(host, "eth0"), (middle, port)] {
            run(&format!("ip -n {place} link set {device} up"));
        }
    }

    /// Starts connections that keep the box busy.
    pub(crate) fn transfers(&self) -> Transfers {
        Transfers::between(&self.from, &self.to, TO, FILLING)
    }

    /// The command that runs a box of this kind, with all of its logs written to files called
    /// `logs`.
    pub(crate) fn command(&self, (kind, files): (&str, &[&str]), logs: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.middle.0, PROGRAM, kind, "--config"]);
        command.arg(self.dir.0.join(format!("{kind}.toml")));
        for file in files {
            command.arg(format!("--{file}")).arg(logs);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Starts a box without logs, and waits until it forwards.
    pub(crate) fn start(&self, kind: &str) -> Process {
        Process::start_ready(&mut self.command((kind, &[]), ""))
    }

    /// Whether both ports have the program of a box.
    pub(crate) fn has_programs(&self) -> bool {
        ["fb-in", "fb-out"].iter().all(|port| {
            let middle = &self.middle.0;
            let shown = run(&format!("ip -n {middle} link show {port}"));
            let filters = run(&format!("tc -n {middle} filter show dev {port} ingress"));
            shown.contains("xdp") || filters.contains("fb_bypass")
        })
    }
}
