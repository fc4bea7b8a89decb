//! Reads and changes the metrics of FRR's OSPF daemons through its shell, `vtysh`.
//!
//! Changes are of the running configuration alone: a router that starts again has its stored one.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::config::Router;
use crate::command::{CommandError, run};

/// The time after which a command that has not ended counts as failed.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The largest output of a command in bytes: a configuration of a million lines.
const LARGEST: u64 = 50_000_000;
/// The longest part of an error that is shown.
const SHOWN: usize = 300;

/// The metric of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Metric {
    /// The metric in use.
    pub value: u32,
    /// Whether the configuration has it. Otherwise it follows from the interface's rate.
    pub configured: bool,
}

/// The metrics of an interface in each version of OSPF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Metrics {
    /// In OSPFv2; `None` if that does not run there.
    pub v2: Option<Metric>,
    /// The metric in OSPFv3; `None` if that does not run there.
    pub v3: Option<Metric>,
}

/// What a version of OSPF is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This metric in the configuration.
    Metric(u32),
    /// No metric in the configuration.
    Usual,
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

    /// Reads the metrics of all interfaces with OSPF.
    ///
    /// # Errors
    /// If the shell fails, or OSPF does not run.
    pub fn read(&self) -> Result<BTreeMap<String, Metrics>, CommandError> {
        let configured = configured(&self.ask(&["show running-config"])?);
        let mut all: BTreeMap<String, Metrics> = BTreeMap::new();
        let v2 = self.json("show ip ospf interface json")?;
        for (name, value) in metrics(&v2["interfaces"]) {
            let configured = configured.get(&(name.clone(), false)) == Some(&value);
            all.entry(name).or_default().v2 = Some(Metric { value, configured });
        }
        if self.router.ospf6 {
            for (name, value) in metrics(&self.json("show ipv6 ospf6 interface json")?) {
                let configured = configured.get(&(name.clone(), true)) == Some(&value);
                all.entry(name).or_default().v3 = Some(Metric { value, configured });
            }
        }
        Ok(all)
    }

    /// Sets what an interface has in OSPFv2, and in OSPFv3 if given.
    ///
    /// # Errors
    /// If the shell refuses.
    pub fn set(&self, interface: &str, v2: Wanted, v3: Option<Wanted>) -> Result<(), CommandError> {
        let enter = format!("interface {interface}");
        let mut lines = vec!["configure terminal".to_owned(), enter, line("ip ospf", v2)];
        lines.extend(v3.map(|v3| line("ipv6 ospf6", v3)));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        self.ask(&lines).map(drop)
    }

    fn json(&self, line: &str) -> Result<Value, CommandError> {
        let text = self.ask(&[line])?;
        serde_json::from_str(&text)
            .map_err(|e| CommandError::Output(self.name(line), e.to_string()))
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
        let done = run(&mut command, String::new(), TIMEOUT, LARGEST).map_err(fail)?;
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

fn line(protocol: &str, wanted: Wanted) -> String {
    match wanted {
        Wanted::Metric(metric) => format!("{protocol} cost {metric}"),
        Wanted::Usual => format!("no {protocol} cost"),
    }
}

/// Returns the metrics in an object of interfaces, as `show ip ospf interface json` has it.
/// Interfaces without one, such as loopback interfaces of OSPFv3, are left out.
fn metrics(interfaces: &Value) -> Vec<(String, u32)> {
    let all = interfaces.as_object().into_iter().flatten();
    let metric = |(name, value): (&String, &Value)| {
        Some((name.clone(), u32::try_from(value["cost"].as_u64()?).ok()?))
    };
    all.filter_map(metric).collect()
}

/// Returns the metrics in a configuration, by interface and whether they are of OSPFv3.
fn configured(text: &str) -> BTreeMap<(String, bool), u32> {
    let mut found = BTreeMap::new();
    let mut interface: Option<&str> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(' ') {
            interface = match words.as_slice() {
                ["interface", name, ..] => Some(*name),
                _ => None,
            };
            continue;
        }
        let Some(name) = interface else { continue };
        let (v3, metric) = match words.as_slice() {
            ["ip", "ospf", "cost", metric] => (false, metric),
            ["ipv6", "ospf6", "cost", metric] => (true, metric),
            _ => continue,
        };
        if let Ok(metric) = metric.parse() {
            found.insert((name.to_owned(), v3), metric);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_state_is_read() {
        // As FRR 8.4.4 prints it, shortened.
        let v2: Value = serde_json::from_str(
            r#"{"interfaces":{"fb-b":{"ifUp":true,"ospfEnabled":true,"networkType":"POINTOPOINT",
            "cost":33,"nbrCount":1,"nbrAdjacentCount":1}}}"#,
        )
        .unwrap();
        assert_eq!(metrics(&v2["interfaces"]), [("fb-b".to_owned(), 33)]);
        let v3: Value = serde_json::from_str(
            r#"{"fb-b":{"status":"up","cost":10},"lo":{"status":"up","type":"LOOPBACK"}}"#,
        )
        .unwrap();
        assert_eq!(metrics(&v3), [("fb-b".to_owned(), 10)]);
        let text = "Building configuration...\n\n!\ninterface fb-b\n ip ospf area 0\n ip ospf cost 33\n \
                    ipv6 ospf6 cost 44\nexit\n!\ninterface fb-c\n ip ospf area 0\nexit\n!\n\
                    router ospf\n ospf router-id 10.9.0.1\n ip ospf cost 5\nexit\n!\nend\n";
        let b = |v3| ("fb-b".to_owned(), v3);
        assert_eq!(configured(text), [(b(false), 33), (b(true), 44)].into());
    }

    #[test]
    fn metrics_become_lines_of_the_shell() {
        assert_eq!(line("ip ospf", Wanted::Metric(12)), "ip ospf cost 12");
        assert_eq!(line("ipv6 ospf6", Wanted::Usual), "no ipv6 ospf6 cost");
    }

    fn router(script: &str) -> Router {
        let vtysh = ["sh", "-c", script, "vtysh"].map(str::to_owned).to_vec();
        Router { vtysh, quoted: false, ospf6: false, interfaces: BTreeMap::new() }
    }

    #[test]
    fn what_the_shell_refuses_is_an_error() {
        for (script, expected) in [
            ("echo '% Unknown command: ip ospf cost 70000'", "% Unknown command: ip ospf cost"),
            ("echo 'failed to connect to any daemons.' >&2; exit 1", ": failed to connect to any"),
            ("exit 7", "it failed without output (exit status: 7)"),
        ] {
            let router = router(script);
            let error = Frr::new(&router).set("eth0", Wanted::Metric(3), None).unwrap_err();
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
        let error = Frr::new(&router).set("eth0", Wanted::Usual, Some(Wanted::Metric(4)));
        let error = error.unwrap_err().to_string();
        let expected = "[-c]['configure terminal'][-c]['interface eth0'][-c]['no ip ospf cost']\
                        [-c]['ipv6 ospf6 cost 4']";
        assert!(error.ends_with(expected), "{error}");
    }
}
