//! Reads and changes the metrics of FRR's daemons through its shell, `vtysh`.
//!
//! The module of each protocol has what its daemons print; the shell and the way to set a metric
//! are the same. Changes are of the running configuration alone: a router that starts again has its
//! stored one.

mod isis;
mod ospf;

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::Duration;

use forebay_plan::weights::Range;

use super::config::{Igp, Router};
use super::metrics::{Instance, Metrics};
use crate::command::{CommandError, run};

/// The time after which a command that has not ended counts as failed.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The largest output of a command in bytes: a configuration of a million lines.
const MAX_OUTPUT: u64 = 50_000_000;
/// The longest part of an error that is shown.
const SHOWN: usize = 300;

/// An interface with the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The metrics of all instances.
    pub metrics: Metrics,
    /// The number of neighbours: more than one on a LAN, where all of them are reached with the
    /// same metric. 0 if there is none, or the daemon does not say.
    pub neighbours: usize,
    /// The metrics that the interface may get.
    pub range: Range,
}

impl Interface {
    fn new(range: Range) -> Self {
        Self { metrics: Metrics::default(), neighbours: 0, range }
    }
}

/// What an instance is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This metric in the configuration.
    Metric(u32),
    /// No metric in the configuration.
    Usual,
}

/// What an instance of an interface is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The instance that is set.
    pub instance: Instance,
    /// The metric that it gets.
    pub wanted: Wanted,
}

impl Setting {
    /// Returns the line of an interface's configuration.
    fn line(self) -> String {
        let line = match self.instance {
            Instance::Ospf2 => "ip ospf cost",
            Instance::Ospf3 => "ipv6 ospf6 cost",
            Instance::Level1 => "isis metric level-1",
            Instance::Level2 => "isis metric level-2",
        };
        match self.wanted {
            Wanted::Metric(metric) => format!("{line} {metric}"),
            Wanted::Usual => format!("no {line}"),
        }
    }
}

/// The shell of a router.
#[derive(Clone, Copy, Debug)]
pub struct Frr<'a> {
    router: &'a Router,
}

impl<'a> Frr<'a> {
    /// Uses the shell of `router`.
    pub fn new(router: &'a Router) -> Self {
        Self { router }
    }

    /// Reads all interfaces with the router's protocol.
    ///
    /// # Errors
    /// If the shell fails, or the protocol does not run.
    pub fn read(&self) -> Result<BTreeMap<String, Interface>, CommandError> {
        match self.router.igp {
            Igp::Ospf { v3 } => ospf::read(*self, v3),
            Igp::Isis { .. } => isis::read(*self),
        }
    }

    /// Sets the metrics of an interface.
    ///
    /// # Errors
    /// If the shell refuses.
    pub fn set(&self, interface: &str, settings: &[Setting]) -> Result<(), CommandError> {
        let mut lines = vec!["configure terminal".to_owned(), format!("interface {interface}")];
        lines.extend(settings.iter().map(|setting| setting.line()));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        self.ask(&lines).map(drop)
    }

    fn name(&self, line: &str) -> String {
        format!("{} -c {line:?}", self.router.vtysh.join(" "))
    }

    /// Runs lines of the shell, and returns what it printed.
    fn ask(&self, lines: &[&str]) -> Result<String, CommandError> {
        let name = || self.name(&lines.join("; "));
        let fail = |e: io::Error| CommandError::Run(name(), e);
        let Some((program, arguments)) = self.router.vtysh.split_first() else {
            return Err(fail(io::ErrorKind::InvalidInput.into()));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        for line in lines {
            let quoted = format!("'{line}'");
            command.args(["-c", if self.router.quoted { &quoted } else { line }]);
        }
        let done = run(&mut command, String::new(), TIMEOUT, MAX_OUTPUT).map_err(fail)?;
        let output = String::from_utf8_lossy(&done.output).into_owned();
        // The shell prints what it refuses, and may still end with the status 0.
        let refused = output.lines().any(|line| line.trim_start().starts_with('%'));
        if done.status.success() && !refused {
            return Ok(output);
        }
        let text = format!("{} {output}", done.errors);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = match text.is_empty() {
            true => format!("it failed without output ({})", done.status),
            false => text.chars().take(SHOWN).collect(),
        };
        Err(CommandError::Failed { command: name(), message })
    }
}

/// A part of a running configuration.
#[derive(Debug)]
struct Section<'a> {
    /// The words of its first line, which is not indented.
    header: Vec<&'a str>,
    /// The words of each line below, which are indented.
    lines: Vec<Vec<&'a str>>,
}

/// Returns the parts of a running configuration.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found: Vec<Section<'_>> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(' ') {
            found.push(Section { header: words, lines: Vec::new() });
        } else if let Some(section) = found.last_mut() {
            section.lines.push(words);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_become_lines_of_the_shell() {
        for (instance, wanted, expected) in [
            (Instance::Ospf2, Wanted::Metric(12), "ip ospf cost 12"),
            (Instance::Ospf3, Wanted::Usual, "no ipv6 ospf6 cost"),
            (Instance::Level1, Wanted::Metric(16_777_214), "isis metric level-1 16777214"),
            (Instance::Level2, Wanted::Usual, "no isis metric level-2"),
        ] {
            assert_eq!(Setting { instance, wanted }.line(), expected);
        }
    }

    fn router(script: &str) -> Router {
        let vtysh = ["sh", "-c", script, "vtysh"].map(str::to_owned).to_vec();
        Router { vtysh, quoted: false, igp: Igp::Ospf { v3: false }, interfaces: BTreeMap::new() }
    }

    #[test]
    fn what_the_shell_refuses_is_an_error() {
        for (script, expected) in [
            ("echo '% Unknown command: ip ospf cost 70000'", "% Unknown command: ip ospf cost"),
            ("echo 'failed to connect to any daemons.' >&2; exit 1", ": failed to connect to any"),
            ("exit 7", "it failed without output (exit status: 7)"),
        ] {
            let router = router(script);
            let three = Setting { instance: Instance::Ospf2, wanted: Wanted::Metric(3) };
            let error = Frr::new(&router).set("eth0", &[three]).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("interface eth0; ip ospf cost 3"), "{error}");
        }
        let router = router("echo '[1, 2'");
        let error = Frr::new(&router).read().unwrap_err().to_string();
        assert!(error.contains("its output cannot be read: "), "{error}");
        let missing = Router { vtysh: vec!["/no/vtysh".to_owned()], ..router };
        assert!(matches!(Frr::new(&missing).read(), Err(CommandError::Run(..))));
    }

    #[test]
    fn arguments_are_quoted_for_a_remote_shell() {
        let mut router = router("for word; do printf '[%s]' \"$word\" >&2; done; exit 1");
        router.quoted = true;
        let settings = [(Instance::Ospf2, Wanted::Usual), (Instance::Ospf3, Wanted::Metric(4))]
            .map(|(instance, wanted)| Setting { instance, wanted });
        let error = Frr::new(&router).set("eth0", &settings);
        let error = error.unwrap_err().to_string();
        let expected = "[-c]['configure terminal'][-c]['interface eth0'][-c]['no ip ospf cost']\
                        [-c]['ipv6 ospf6 cost 4']";
        assert!(error.ends_with(expected), "{error}");
    }
}
