//! The arms of the comparison.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use forebay_test_support::namespace::run;

use crate::forwarder;
use crate::network::{FLOWS, Load, Network, Way};

/// Returns the path of the program `forebay`, which the first call builds as a release.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let build = ["build", "--locked", "--release", "-p", "forebay"];
        let built = Command::new(cargo).args(build).status().unwrap();
        assert!(built.success(), "cargo cannot build forebay");
        // This benchmark is in `deps` of a profile's directory, beside the one of releases.
        let me = std::env::current_exe().unwrap();
        me.ancestors().nth(3).unwrap().join("release/forebay")
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    /// The two ends, connected directly.
    Ends,
    /// Plain routing by the kernel.
    Plain,
    /// Routing with one HTB class of unlimited rate and a pfifo.
    Htb,
    /// A sendbox with `dataplane = "kernel"` and one bundle.
    KernelOne,
    /// The same with a thousand bundles, of which each flow uses one.
    KernelThousand,
    /// A sendbox in user space.
    User,
    /// A bare forwarder between two AF_XDP ports.
    Bare,
}

impl Arm {
    pub(crate) const ALL: [Self; 7] = [
        Self::Ends,
        Self::Plain,
        Self::Htb,
        Self::KernelOne,
        Self::KernelThousand,
        Self::User,
        Self::Bare,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ends => "ends",
            Self::Plain => "routing",
            Self::Htb => "htb+pfifo",
            Self::KernelOne => "kernel-1",
            Self::KernelThousand => "kernel-1000",
            Self::User => "user",
            Self::Bare => "bare-af-xdp",
        }
    }

    pub(crate) const fn way(self) -> Way {
        match self {
            Self::Ends => Way::Direct,
            Self::Plain | Self::Htb | Self::KernelOne | Self::KernelThousand => Way::Routed,
            Self::User | Self::Bare => Way::Wire,
        }
    }

    /// Whether the arm can carry packets of that size.
    pub(crate) fn takes(self, load: Load) -> bool {
        load == Load::Packets || self.way() != Way::Wire
    }

    pub(crate) fn set_up(self, network: &Network) -> SetUp<'_> {
        let wire = self.way() == Way::Wire;
        if wire {
            network.merge_at_ends(true);
        }
        let tc = |arguments: &str| run(&format!("tc -n {} {arguments}", network.middle.0));
        let daemon = match self {
            Self::Ends | Self::Plain => None,
            Self::Htb => {
                tc("qdisc add dev out root handle 1: htb default 1");
                tc("class add dev out parent 1: classid 1:1 htb rate 34gbit quantum 3028");
                tc("qdisc add dev out parent 1:1 pfifo limit 1250");
                None
            }
            Self::KernelOne => Some(sendbox(network, &over_kernel(1))),
            Self::KernelThousand => Some(sendbox(network, &over_kernel(1_000))),
            Self::User => Some(sendbox(network, USER)),
            Self::Bare => {
                let me = std::env::current_exe().unwrap();
                let mut command = network.command();
                command.arg(me).env(forwarder::ROLE, "1");
                Some(ready(command))
            }
        };
        SetUp { network, daemon, wire, htb: self == Self::Htb }
    }
}

/// An arm that is set up, and removed when this value is dropped.
pub(crate) struct SetUp<'a> {
    network: &'a Network,
    daemon: Option<Child>,
    wire: bool,
    htb: bool,
}

impl SetUp<'_> {
    /// The process of the box, if the arm has one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }
}

impl Drop for SetUp<'_> {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // The bare forwarder stops when its standard input ends.
            drop(daemon.stdin.take());
            // SAFETY: takes integers; the process is our child, not yet waited for.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            let _ = daemon.wait();
        }
        if self.htb {
            run(&format!("tc -n {} qdisc del dev out root", self.network.middle.0));
        }
        if self.wire {
            self.network.merge_at_ends(false);
        }
    }
}

impl Network {
    /// Runs a command in the middle namespace.
    fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.middle.0]);
        command
    }
}

/// Starts `command` and waits until it prints that it is ready.
fn ready(mut command: Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    child
}

fn sendbox(network: &Network, config: &str) -> Child {
    let key = network.dir.join("key");
    if !key.exists() {
        let made = Command::new(program()).arg("keygen").arg(&key).stdout(Stdio::null()).status();
        assert!(made.unwrap().success());
    }
    let file = network.dir.join("sendbox.toml");
    fs::write(&file, config).unwrap();
    let mut command = network.command();
    command.arg(program()).args(["sendbox", "--config"]).arg(file).stderr(Stdio::null());
    ready(command)
}

/// The configuration of a sendbox with `dataplane = "kernel"`. Each flow has a bundle of its own;
/// the other bundles have prefixes without traffic.
fn over_kernel(bundles: u32) -> String {
    let mut text = String::from(
        "[sendbox]\ndataplane = \"kernel\"\noutside = \"out\"\nlisten = \"10.9.2.1:28316\"\n",
    );
    for i in 0..bundles {
        let prefix = match bundles {
            1 => "10.9.2.0/24".to_owned(),
            _ if i < u32::from(FLOWS) => format!("10.9.2.{}/32", 2 + i),
            _ => format!("10.{}.{}.0/24", 100 + i / 256, i % 256),
        };
        text += &format!(
            "[[bundle]]\nname = \"b{i}\"\nid = {i}\nprefixes = [\"{prefix}\"]\n\
             receivebox = \"10.9.2.250:28317\"\nkey_file = \"key\"\n\
             policy = {{ kind = \"fifo\", limit = \"1250 packets\" }}\n"
        );
    }
    text
}

const USER: &str = r#"[sendbox]
inside = "in"
outside = "out"
method = "xdp"
listen = "10.9.2.1:28316"
[[bundle]]
name = "b"
id = 1
prefixes = ["10.9.3.0/24"]
receivebox = "10.9.2.250:28317"
key_file = "key"
policy = { kind = "fifo", limit = "1250 packets" }
"#;
