//! Reads the routes that the providers chose: BIRD's best paths, and the kernel's table, which
//! traffic follows.

use std::collections::BTreeMap;
use std::process::Command;

use forebay_plan::hints::{Hints, Method};
use ipnet::IpNet;

use super::blueprint::{Blueprint, towards};
use super::build::Built;
use super::daemons::{Programs, bird_socket};
use super::record::Tables;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;
use forebay_lab::netns::run_dir::RunDir;

/// The entry of the traffic to each prefix.
pub(super) type Table = BTreeMap<IpNet, String>;

/// A session, as a provider sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) entry: String,
    pub(super) established: bool,
    /// The time since the session is up, as BIRD formats it.
    pub(super) since: String,
}

/// Whether these are the same sessions, and none of them was down in between.
pub(super) fn uninterrupted(before: &[Seen], now: &[Seen]) -> bool {
    let same = |(a, b): (&Seen, &Seen)| {
        let since = moment(&a.since).zip(moment(&b.since));
        // BIRD computes the time of day for each request, with some milliseconds of difference.
        let is_one = since.map_or(a.since == b.since, |(a, b)| (a - b).abs() < 0.5);
        (&a.entry, a.established) == (&b.entry, b.established) && is_one
    };
    before.len() == now.len() && before.iter().zip(now).all(same)
}

/// Returns a time of day in seconds.
fn moment(text: &str) -> Option<f64> {
    let mut parts = text.split(':').map(|part| part.parse::<f64>().ok());
    Some((parts.next()?? * 60.0 + parts.next()??) * 60.0 + parts.next()??)
}

/// The clients of the daemons.
pub(super) struct Reader<'a> {
    pub(super) dir: &'a RunDir,
    pub(super) programs: &'a Programs,
    pub(super) blueprint: &'a Blueprint,
    pub(super) built: &'a Built,
}

impl Reader<'_> {
    fn birdc(&self, provider: &str, words: &[&str]) -> Result<String, EngineError> {
        let mut command = Command::new(&self.programs.birdc);
        command.arg("-s").arg(bird_socket(self.dir, provider)).args(words);
        exec::output(&mut command, "")
    }

    /// Returns the sessions of a provider.
    ///
    /// # Errors
    /// If its daemon does not answer.
    pub(super) fn sessions(&self, provider: &str) -> Result<Vec<Seen>, EngineError> {
        Ok(parse_sessions(&self.birdc(provider, &["show", "protocols"])?))
    }

    /// Returns the best paths of a provider through this ISP.
    ///
    /// # Errors
    /// If its daemon does not answer.
    pub(super) fn best(&self, provider: &str) -> Result<Table, EngineError> {
        let mut table = parse_best(&self.birdc(provider, &["show", "route", "primary"])?);
        let sessions = &self.blueprint.sessions;
        table.retain(|_, entry| sessions.iter().any(|s| s.router == *entry));
        Ok(table)
    }

    /// Returns the routes in the kernel's table that the daemon has installed.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn kernel(&self, provider: &str) -> Result<Table, EngineError> {
        let mut table = Table::new();
        for family in ["-4", "-6"] {
            let mut command = Command::new("ip");
            let name = self.built.name(provider);
            command.args(["-j", family, "-n", &name, "route", "show", "proto", "bird"]);
            let text = exec::output(&mut command, "")?;
            table.extend(parse_kernel(&text, |gateway| {
                let of = |s: &&super::blueprint::Session| {
                    self.blueprint.senders[s.provider].name == provider
                        && (s.ours.to_string() == gateway || s.ours_v6.to_string() == gateway)
                };
                self.blueprint.sessions.iter().find(of).map(|s| s.router.clone())
            }));
        }
        Ok(table)
    }
}

/// Returns the tables that `hints` ask for, where `first` are the tables without hints.
pub(super) fn asked(hints: &Hints, first: &Tables) -> Tables {
    let mut tables = first.clone();
    for neighbour in &hints.neighbours {
        let Some(table) = tables.get_mut(&neighbour.name) else { continue };
        for hint in neighbour.hints.iter().filter(|h| h.method.is_some()) {
            let halves = hint.prefix.subnets(hint.prefix.prefix_len() + 1);
            let told: Vec<IpNet> = match halves {
                // For a whole prefix both halves are announced, and the prefix itself stays at its
                // entry.
                Ok(halves)
                    if hint.method == Some(Method::MoreSpecific) && hint.prefix == hint.of =>
                {
                    halves.collect()
                }
                _ => vec![hint.prefix],
            };
            table.extend(told.into_iter().map(|p| (p.to_string(), hint.entry.clone())));
        }
    }
    tables
}

/// Returns the lines of `show protocols` that are sessions: name, protocol, table, state, since,
/// info.
fn parse_sessions(text: &str) -> Vec<Seen> {
    let session = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [name, "BGP", _, _, since, rest @ ..] => Some(Seen {
                entry: (*name).to_owned(),
                established: rest.first() == Some(&"Established"),
                since: (*since).to_owned(),
            }),
            _ => None,
        }
    };
    text.lines().filter_map(session).collect()
}

/// Returns the routes of `show route primary` with one gateway, with the router behind its
/// interface: `PREFIX unicast [SESSION TIME ...] * ...`, and in the next line `via GATEWAY on
/// INTERFACE`.
fn parse_best(text: &str) -> Table {
    let lines = text.lines().zip(text.lines().skip(1));
    let route = |(line, next): (&str, &str)| {
        let mut words = line.split_whitespace();
        let prefix = words.next()?.parse().ok()?;
        let is_way = words.next()? == "unicast";
        let mut words = next.split_whitespace();
        let is_via = words.next()? == "via";
        let entry = words.nth(2)?.strip_prefix(&towards(""))?;
        (is_way && is_via).then(|| (prefix, entry.to_owned()))
    };
    lines.filter_map(route).collect()
}

/// Returns the routes of `ip -j route`, with the `entry` of their gateways; other routes are left
/// out.
fn parse_kernel(text: &str, entry: impl Fn(&str) -> Option<String>) -> Table {
    #[derive(serde::Deserialize)]
    struct Route {
        dst: String,
        gateway: Option<String>,
    }
    let routes: Vec<Route> = serde_json::from_str(text).unwrap_or_default();
    let known = |r: &Route| Some((r.dst.parse().ok()?, entry(r.gateway.as_deref()?)?));
    routes.iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_tables_as_announced() {
        let hint = |prefix: &str, of: &str, method: &str| {
            format!(
                r#"{{"prefix": "{prefix}", "of": "{of}", "entry": "east", "router": "m", "before": [], "demand": 1.0,
                "method": {method}, "state": "new"}}"#
            )
        };
        let hints = [
            hint("10.0.0.0/23", "10.0.0.0/23", "\"med\""),
            hint("10.2.0.0/23", "10.2.0.0/23", "\"more_specific\""),
            hint("10.4.0.0/24", "10.4.0.0/23", "\"more_specific\""),
            hint("10.6.0.0/23", "10.6.0.0/23", "null"),
        ];
        let text = format!(
            r#"{{"version": 1, "network": "", "demand": 1.0, "before": 1.0, "after": 1.0,
            "neighbours": [{{"name": "x", "gain": 1.0, "hints": [{}]}}]}}"#,
            hints.join(",")
        );
        let hints: Hints = serde_json::from_str(&text).unwrap();
        let all = ["10.0.0.0/23", "10.2.0.0/23", "10.4.0.0/23", "10.6.0.0/23"];
        let first: Tables = [(
            "x".to_owned(),
            all.into_iter().map(|p| (p.to_owned(), "west".to_owned())).collect(),
        )]
        .into();
        let asked = &asked(&hints, &first)["x"];
        let east: Vec<_> =
            asked.iter().filter(|(_, e)| *e == "east").map(|(p, _)| p.as_str()).collect();
        assert_eq!(east, ["10.0.0.0/23", "10.2.0.0/24", "10.2.1.0/24", "10.4.0.0/24"]);
        assert_eq!((asked.len(), asked["10.2.0.0/23"].as_str()), (7, "west"));
    }

    #[test]
    fn output_of_bird_and_ip_is_parsed() {
        let text = "BIRD 2.0.12 ready.\nTable master4:\n\
            198.18.0.0/23        unicast [west 09:45:18.040] * (100) [AS64500i]\n\tvia 100.64.0.0 on fb-west\n\
            203.0.113.0/28       unreachable [own4 09:45:13.046] * (200)\n\nTable master6:\n\
            2001:db8::/47        unicast [east 09:45:16.162 from 100.64.0.4] * (100) [AS64500i]\n\tvia 2001:db8:ff:2:: on fb-east\n";
        let table = parse_best(text);
        let pairs: Vec<_> = table.iter().map(|(p, e)| (p.to_string(), e.as_str())).collect();
        assert_eq!(
            pairs,
            [("198.18.0.0/23".to_owned(), "west"), ("2001:db8::/47".to_owned(), "east")]
        );
        let text = "Name       Proto      Table      State  Since         Info\n\
            device1    Device     ---        up     09:45:13.046  \n\
            west       BGP        ---        up     09:45:13.934  Established   \n\
            east       BGP        ---        start  09:45:13.934  Active        Socket: Connection refused\n";
        let seen = parse_sessions(text);
        assert_eq!(seen.len(), 2);
        assert!(seen[0].established && !seen[1].established && seen[0].since == "09:45:13.934");
        let later = |since: &str| [Seen { since: since.to_owned(), ..seen[0].clone() }];
        assert!(uninterrupted(&seen[..1], &later("09:45:13.936")));
        assert!(!uninterrupted(&seen[..1], &later("09:45:15.100")));
        assert!(
            !uninterrupted(&seen[..1], &later("2026-11-22")) && !uninterrupted(&seen, &seen[..1])
        );
        let text = r#"[{"dst":"198.18.0.0/23","gateway":"100.64.0.0","dev":"p","protocol":"bird","metric":32,"flags":[]},
            {"dst":"10.0.0.0/8","dev":"x","flags":[]}]"#;
        let table =
            parse_kernel(text, |gateway| (gateway == "100.64.0.0").then(|| "west".to_owned()));
        assert_eq!(table.len(), 1);
        assert!(parse_kernel("", |_| None).is_empty());
    }
}
