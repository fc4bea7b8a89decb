//! The record as text for the terminal.

use std::collections::BTreeSet;
use std::fmt;

use super::record::{Check, Inside, LinkUse, Record, Several, Tables, Throughput};

/// Formats a table of texts with aligned columns.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|r| r.get(at)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn words(words: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    words.into_iter().map(Into::into).collect()
}

impl Record {
    /// Whether all checks hold.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// Formats the providers' tables before, with and after the hints.
    fn tables(&self) -> String {
        let mut rows = vec![words(["best path", "of", "at first", "with hints", "taken back"])];
        for (provider, first) in &self.first {
            let of = |tables: &Tables| tables.get(provider).cloned().unwrap_or_default();
            let (hinted, withdrawn) = (of(&self.hinted), of(&self.withdrawn));
            let all: BTreeSet<&String> =
                first.keys().chain(hinted.keys()).chain(withdrawn.keys()).collect();
            // Sorted as prefixes and not as text, so that halves follow the prefix that they are
            // part of.
            let mut all: Vec<(Option<ipnet::IpNet>, &String)> =
                all.into_iter().map(|p| (p.parse().ok(), p)).collect();
            all.sort();
            for (_, prefix) in all {
                let at = |table: &std::collections::BTreeMap<String, String>| {
                    table.get(prefix).cloned().unwrap_or_else(|| "-".to_owned())
                };
                rows.push(vec![
                    prefix.clone(),
                    provider.clone(),
                    at(first),
                    at(&hinted),
                    at(&withdrawn),
                ]);
            }
        }
        table(&rows)
    }

    /// Formats the throughput of each provider and entry.
    fn throughput(&self) -> String {
        let mut rows = vec![words(["Mbit/s", "before", "with hints"])];
        let inside = self.inside.as_ref();
        rows[0].extend(inside.map(|_| "and paths".to_owned()));
        let mut row = |name: String, of: &dyn Fn(&Throughput) -> f64| {
            let rate = |t: &Throughput| format!("{:.1}", of(t));
            let mut row = vec![name, rate(&self.before), rate(&self.after)];
            row.extend(inside.map(|inside| rate(&inside.throughput)));
            rows.push(row);
        };
        let get = |map: &std::collections::BTreeMap<String, f64>, key: &str| {
            map.get(key).copied().unwrap_or(0.0)
        };
        for provider in self.before.providers.keys() {
            row(format!("to users, from {provider}"), &|t| get(&t.providers, provider));
            for entry in &self.entries {
                let of =
                    |t: &Throughput| t.arrived.get(provider).map_or(0.0, |own| get(own, entry));
                row(format!("  in at {entry}"), &of);
            }
        }
        for entry in &self.entries {
            row(format!("from {entry} into the core"), &|t| get(&t.entries, entry));
        }
        row("to users, in all".to_owned(), &Throughput::total);
        table(&rows)
    }
}

impl Inside {
    /// Formats the links, and the paths of the plan.
    fn text(&self) -> String {
        let mut rows = vec![words([
            "inside: Mbit/s, wait, loss",
            "capacity",
            "before",
            "with hints",
            "with hints and paths",
        ])];
        for link in &self.links {
            let used = |used: &LinkUse| {
                let (wait, loss) = (used.wait_ms, used.loss * 100.0);
                format!("{:.1}, {wait:.0} ms, {loss:.1} %", used.mbps)
            };
            let hot = if link.link == self.hot { " (hot)" } else { "" };
            rows.push(vec![
                format!("{}{hot}", link.link),
                format!("{:.0}", link.capacity),
                used(&link.before),
                used(&link.hinted),
                used(&link.steered),
            ]);
        }
        let mut text = table(&rows);
        for path in &self.paths {
            text += &format!("path: {path}\n");
        }
        for (what, seconds) in &self.times {
            text += &format!("{seconds:6.2} s  {what}\n");
        }
        text
    }
}

impl Record {
    /// Writes the observations, without checks.
    fn body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.tables())?;
        let mut hints = vec![words(["hint to", "prefix", "in at", "sent by"])];
        hints.extend(
            self.hints.iter().map(|h| words([&h.neighbour, &h.prefix, &h.entry, &h.method])),
        );
        writeln!(f, "{}", table(&hints))?;
        writeln!(f, "{}", self.throughput())?;
        if let Some(inside) = &self.inside {
            writeln!(f, "{}", inside.text())?;
        }
        Ok(())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.holds { "yes" } else { "NO " };
        writeln!(f, "{mark}  {} ({})", self.what, self.seen)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body(f)?;
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))?;
        writeln!(f, "\n{:.0} s from end to end; load {} at the end.", self.seconds, self.load)
    }
}

impl Several {
    /// Whether all checks hold.
    pub fn holds(&self) -> bool {
        self.isps.values().all(Record::holds) && self.checks.iter().all(|check| check.holds)
    }
}

impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, record) in &self.isps {
            writeln!(f, "The ISP {name}:\n")?;
            record.body(f)?;
            record.checks.iter().try_for_each(|check| write!(f, "{check}"))?;
            writeln!(f)?;
        }
        writeln!(f, "Both ISPs:\n")?;
        self.checks.iter().try_for_each(|check| write!(f, "{check}"))?;
        writeln!(f, "\n{:.0} s from end to end; load {} at the end.", self.seconds, self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_follow_their_prefix_and_missing_values_are_dashes() {
        let tables = |pairs: &[(&str, &str)]| -> Tables {
            let own = pairs.iter().map(|(p, e)| ((*p).to_owned(), (*e).to_owned())).collect();
            [("x".to_owned(), own)].into()
        };
        let first = tables(&[("198.18.0.0/23", "west"), ("2001:db8:10::/47", "west")]);
        let record = Record {
            hinted: tables(&[
                ("198.18.0.0/23", "west"),
                ("198.18.0.0/24", "east"),
                ("2001:db8:10::/47", "north"),
            ]),
            withdrawn: first.clone(),
            first,
            checks: vec![Check { what: "it".into(), holds: false, seen: "not".into() }],
            ..Record::default()
        };
        assert!(!record.holds());
        let text = record.to_string();
        let lines: Vec<_> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[1], ["198.18.0.0/23", "x", "west", "west", "west"]);
        assert_eq!(lines[2], ["198.18.0.0/24", "x", "-", "east", "-"]);
        assert_eq!(lines[3], ["2001:db8:10::/47", "x", "west", "north", "west"]);
        assert!(text.contains("NO   it (not)"));
    }
}
