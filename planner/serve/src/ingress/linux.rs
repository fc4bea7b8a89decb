//! Reads and changes routes and nexthop objects of Linux, by iproute2's command
//! (docs/decisions/0007-iproute2-and-ethtool-as-commands.md).
//!
//! Only objects with this program's protocol number are read or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;

use super::change::{Action, Change, Key, State, Target, breaks, joined, makes};
use super::config::Config;
use crate::command::{CommandError, Finished, run};

/// The time after which a command that has not ended counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest output of a command in bytes: 100 000 routes.
const MAX_OUTPUT: u64 = 200_000_000;
/// The longest part of an error that is shown.
const SHOWN: usize = 300;

/// What a command printed, and the lines of its input that failed.
#[derive(Debug)]
struct Ran {
    output: Vec<u8>,
    failed: BTreeMap<usize, String>,
}

/// The outcome of some changes.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The changes that were made.
    pub done: Vec<Change>,
    /// Those that failed, with the cause.
    pub failed: Vec<(Change, String)>,
}

/// The kernel of this machine, or of a namespace.
#[derive(Clone, Debug)]
pub struct Linux {
    command: Vec<OsString>,
}

impl Default for Linux {
    fn default() -> Self {
        Self { command: vec!["ip".into()] }
    }
}

impl Linux {
    /// Uses the network namespace `name` instead of that of this process.
    pub fn in_namespace(name: &str) -> Self {
        Self { command: vec!["ip".into(), "-n".into(), name.into()] }
    }

    /// Reads what the kernel has of this program.
    ///
    /// # Errors
    /// If the command fails.
    pub fn read(&self, protocol: u8) -> Result<State, CommandError> {
        let protocol = protocol.to_string();
        let list = |arguments: &[&str]| {
            let name = arguments.join(" ");
            let ran = self.run(arguments, String::new())?;
            if ran.output.iter().all(u8::is_ascii_whitespace) {
                return Ok(Vec::new());
            }
            match serde_json::from_slice(&ran.output) {
                Ok(Value::Array(all)) => Ok(all),
                Ok(_) => Err(CommandError::Output(name, "it is no list".to_owned())),
                Err(e) => Err(CommandError::Output(name, e.to_string())),
            }
        };
        let own = ["show", "protocol", &protocol];
        let routes = |family| list(&[&["-json", family, "route"], &own[..]].concat());
        // With a family, groups would be left out.
        let nexthops = list(&[&["-json", "nexthop"], &own[..]].concat())?;
        let all = list(&["-json", "nexthop", "show"])?;
        state(&nexthops, &all, &[routes("-4")?, routes("-6")?].concat())
            .map_err(|why| CommandError::Output("ip".to_owned(), why))
    }

    /// Returns those of `segments` that the kernel has a route to. The default route does not
    /// count, since it says nothing about a segment.
    ///
    /// # Errors
    /// If the command cannot be run.
    pub fn reachable(
        &self,
        segments: &BTreeSet<Ipv6Addr>,
    ) -> Result<BTreeSet<Ipv6Addr>, CommandError> {
        if segments.is_empty() {
            return Ok(BTreeSet::new());
        }
        let lines: String =
            segments.iter().map(|segment| format!("route get {segment} fibmatch\n")).collect();
        let ran = self.run(&["-6", "-json", "-force", "-batch", "-"], lines)?;
        let answers = serde_json::Deserializer::from_slice(&ran.output).into_iter::<Value>();
        let there = segments.iter().zip(1..).filter(|(_, line)| !ran.failed.contains_key(line));
        let mut reachable = BTreeSet::new();
        let name = || "ip route get".to_owned();
        let mut count = 0;
        for ((segment, _), answer) in there.clone().zip(answers) {
            let answer = answer.map_err(|e| CommandError::Output(name(), e.to_string()))?;
            count += 1;
            if answer[0]["dst"].as_str().is_some_and(|dst| dst != "default") {
                reachable.insert(*segment);
            }
        }
        match there.count() == count {
            true => Ok(reachable),
            false => Err(CommandError::Output(name(), "an answer is missing".to_owned())),
        }
    }

    /// Brings the kernel to `target`: first adds and moves, then removes what is no longer used.
    /// A route that fails keeps its paths.
    ///
    /// # Errors
    /// If the kernel cannot be read, or a path or a group cannot be added.
    pub fn reach(&self, target: &Target, config: &Config) -> Result<Outcome, CommandError> {
        let mut outcome = Outcome::default();
        let state = self.read(config.protocol)?;
        let (made, left_out) = makes(&state, target, config.first);
        for key in left_out {
            let reason = target.routes.get(&key).map(|w| w.reason.clone()).unwrap_or_default();
            let change = Change { action: Action::AddRoute(key, 0), reason };
            outcome.failed.push((change, "there are too many paths".to_owned()));
        }
        let none = made.is_empty();
        let (routes, objects): (Vec<Change>, Vec<Change>) =
            made.into_iter().partition(|change| route(&change.action).is_some());
        self.apply(objects, config, &mut outcome)?;
        self.apply(routes, config, &mut outcome)?;
        // What failed is seen in the kernel.
        let state = if none { state } else { self.read(config.protocol)? };
        let (routes, objects): (Vec<Change>, Vec<Change>) =
            breaks(&state, target).into_iter().partition(|c| route(&c.action).is_some());
        self.apply(routes, config, &mut outcome)?;
        self.apply(objects, config, &mut outcome)?;
        Ok(outcome)
    }

    /// Makes changes of routes, or of nexthop objects, in an order in which each finds what it
    /// needs.
    fn apply(
        &self,
        changes: Vec<Change>,
        config: &Config,
        outcome: &mut Outcome,
    ) -> Result<(), CommandError> {
        let mut batches: [(&[&str], Vec<Change>); 3] =
            [(&["-4"], Vec::new()), (&["-6"], Vec::new()), (&[], Vec::new())];
        for change in changes {
            let batch = match (&change.action, route(&change.action)) {
                (_, Some((IpNet::V4(_), _))) => 0,
                // Routes of both families may use a path of IPv6.
                (Action::AddPath(..), _) | (_, Some(_)) => 1,
                // A group has no family.
                _ => 2,
            };
            batches[batch].1.push(change);
        }
        for (family, changes) in batches {
            if changes.is_empty() {
                continue;
            }
            let lines: String =
                changes.iter().map(|change| line(&change.action, config) + "\n").collect();
            let mut ran = self.run(&[family, &["-force", "-batch", "-"]].concat(), lines)?;
            for (change, at) in changes.into_iter().zip(1..) {
                match ran.failed.remove(&at) {
                    None => outcome.done.push(change),
                    Some(why) => outcome.failed.push((change, why)),
                }
            }
        }
        Ok(())
    }

    fn run(&self, arguments: &[&str], input: String) -> Result<Ran, CommandError> {
        let name = || format!("ip {}", arguments.join(" "));
        let fail = |e: io::Error| CommandError::Run(name(), e);
        let Some((program, first)) = self.command.split_first() else {
            return Err(fail(io::ErrorKind::InvalidInput.into()));
        };
        let mut command = Command::new(program);
        command.args(first).args(arguments);
        let finished = run(&mut command, input, TIMEOUT, MAX_OUTPUT).map_err(fail)?;
        let Finished { status, output, errors } = finished;
        let failed = failures(&errors);
        if !status.success() && failed.is_empty() {
            let message = errors.split_whitespace().collect::<Vec<_>>().join(" ");
            let message = message.chars().take(SHOWN).collect();
            return Err(CommandError::Failed { command: name(), message });
        }
        Ok(Ran { output, failed })
    }
}

/// Returns the route that a change changes.
fn route(action: &Action) -> Option<Key> {
    match action {
        Action::AddRoute(key, _) | Action::MoveRoute(key, _) | Action::RemoveRoute(key) => {
            Some(*key)
        }
        _ => None,
    }
}

/// Returns a change as a line for `ip -batch`.
pub fn line(action: &Action, config: &Config) -> String {
    let protocol = config.protocol;
    match action {
        // The device is a formality: packets leave by the route to the first segment. The loopback
        // device is always up.
        Action::AddPath(id, segments) => format!(
            "nexthop add id {id} encap seg6 mode encap segs {} dev lo protocol {protocol}",
            joined(segments, ",")
        ),
        Action::AddGroup(id, members) => {
            let member = |(path, weight): &(u32, u16)| format!("{path},{weight}");
            let members: Vec<String> = members.iter().map(member).collect();
            format!("nexthop add id {id} group {} protocol {protocol}", members.join("/"))
        }
        Action::AddRoute((prefix, metric), group) => {
            format!("route add {prefix} nhid {group} metric {metric} protocol {protocol}")
        }
        Action::MoveRoute((prefix, metric), group) => {
            format!("route replace {prefix} nhid {group} metric {metric} protocol {protocol}")
        }
        Action::RemoveRoute((prefix, metric)) => {
            format!("route del {prefix} metric {metric} protocol {protocol}")
        }
        Action::RemoveGroup(id) | Action::RemovePath(id) => format!("nexthop del id {id}"),
    }
}

/// Returns the lines of a batch that failed, with what was printed about each.
fn failures(errors: &str) -> BTreeMap<usize, String> {
    let mut failed = BTreeMap::new();
    let mut said: Vec<&str> = Vec::new();
    for text in errors.lines() {
        match text.strip_prefix("Command failed -:").and_then(|n| n.trim().parse().ok()) {
            Some(at) => {
                let message: String = said.join(" ").chars().take(SHOWN).collect();
                failed.insert(at, message);
                said.clear();
            }
            None => said.push(text.trim()),
        }
    }
    failed
}

/// Reads the lists of this program's nexthop objects, of all objects, and of this program's routes
/// that `ip -json` prints.
fn state(nexthops: &[Value], all: &[Value], routes: &[Value]) -> Result<State, String> {
    let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let mut state = State::default();
    for object in nexthops {
        let id = number(&object["id"]).ok_or("a nexthop object has no id")?;
        if let Some(members) = object["group"].as_array() {
            let member = |member: &Value| {
                // The weight 1 is not printed.
                let weight = member["weight"].as_u64().unwrap_or(1);
                Some((number(&member["id"])?, u16::try_from(weight).ok()?))
            };
            let members: Option<Vec<(u32, u16)>> = members.iter().map(member).collect();
            state.groups.insert(id, members.ok_or("a group has a member without an id")?);
            continue;
        }
        let ours = object["encap"] == "seg6" && object["mode"] == "encap" && object["dev"] == "lo";
        let segments = object["segs"].as_array().filter(|_| ours).into_iter().flatten();
        let segments = segments.map(|s| s.as_str().and_then(|s| s.parse().ok()));
        let segments: Option<Vec<Ipv6Addr>> = segments.collect();
        state.paths.insert(id, segments.unwrap_or_default());
    }
    let ours = |id: &u32| state.paths.contains_key(id) || state.groups.contains_key(id);
    state.others = all.iter().filter_map(|o| number(&o["id"])).filter(|id| !ours(id)).collect();
    for route in routes {
        let dst = route["dst"].as_str().ok_or("a route has no dst")?;
        let prefix: IpNet = match dst.parse() {
            Ok(prefix) => prefix,
            // A route to one address is printed without its length, and the default by name.
            Err(_) => match dst.parse::<std::net::IpAddr>() {
                Ok(address) => address.into(),
                Err(_) => continue,
            },
        };
        let metric = number(&route["metric"]).unwrap_or(0);
        let group = number(&route["nhid"]).unwrap_or(0);
        state.routes.insert((prefix, metric), group);
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        // As iproute2 6.1 prints them.
        let nexthops: Value = serde_json::from_str(
            r#"[{"id":7001,"encap":"seg6","mode":"encap","segs":["fc00:c::1","fc00:d::6"],"dev":"lo","scope":"link","protocol":"228","flags":[]},
            {"id":7004,"gateway":"fe80::1","dev":"eth0","protocol":"228","flags":[]},
            {"id":7010,"group":[{"id":7001,"weight":3},{"id":7004}],"protocol":"228","flags":[]}]"#,
        )
        .unwrap();
        let routes: Value = serde_json::from_str(
            r#"[{"dst":"192.0.2.0/24","nhid":7010,"metric":10,"flags":[],"nexthops":[]},
            {"dst":"2001:db8::1","dev":"lo","metric":1024,"flags":[]}]"#,
        )
        .unwrap();
        let (nexthops, routes) = (nexthops.as_array().unwrap(), routes.as_array().unwrap());
        let other: Value = serde_json::json!([{"id": 5, "blackhole": null}]);
        let all = [nexthops.clone(), other.as_array().unwrap().clone()].concat();
        let read = state(nexthops, &all, routes).unwrap();
        assert_eq!(read.others, [5].into());
        let segments = vec!["fc00:c::1".parse().unwrap(), "fc00:d::6".parse().unwrap()];
        assert_eq!(read.paths, [(7001, segments), (7004, vec![])].into());
        assert_eq!(read.groups, [(7010, vec![(7001, 3), (7004, 1)])].into());
        let key = |prefix: &str, metric| (prefix.parse::<IpNet>().unwrap(), metric);
        assert_eq!(
            read.routes,
            [(key("192.0.2.0/24", 10), 7010), (key("2001:db8::1/128", 1024), 0)].into()
        );
    }

    #[test]
    fn failed_lines_have_their_cause() {
        let errors = "RTNETLINK answers: File exists\nCommand failed -:2\n\
                      Error: Invalid group.\nCommand failed -:7\n";
        let failed = failures(errors);
        assert_eq!(
            failed,
            [
                (2, "RTNETLINK answers: File exists".to_owned()),
                (7, "Error: Invalid group.".to_owned())
            ]
            .into()
        );
    }

    #[test]
    fn changes_become_lines_of_a_batch() {
        let config = Config::of_test("Rome");
        let key = ("192.0.2.0/24".parse().unwrap(), 10);
        let segments = vec!["fc00:c::1".parse().unwrap(), "fc00:d::6".parse().unwrap()];
        let lines = [
            Action::AddPath(7, segments),
            Action::AddGroup(8, vec![(7, 75), (6, 25)]),
            Action::AddRoute(key, 8),
            Action::MoveRoute(key, 9),
            Action::RemoveRoute(key),
            Action::RemoveGroup(8),
        ]
        .map(|action| line(&action, &config));
        assert_eq!(
            lines,
            [
                "nexthop add id 7 encap seg6 mode encap segs fc00:c::1,fc00:d::6 dev lo protocol 228",
                "nexthop add id 8 group 7,75/6,25 protocol 228",
                "route add 192.0.2.0/24 nhid 8 metric 10 protocol 228",
                "route replace 192.0.2.0/24 nhid 9 metric 10 protocol 228",
                "route del 192.0.2.0/24 metric 10 protocol 228",
                "nexthop del id 8",
            ]
        );
    }
}
