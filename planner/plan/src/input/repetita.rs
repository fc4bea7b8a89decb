//! Reads networks and demands of REPETITA (<https://github.com/svissicchio/Repetita>): lines of
//! words in sections.
//!
//! Capacities and demands are in kbit/s. Nodes are named by their number, from 0.

use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::Rate;

use crate::input::demands::Sources;
use crate::input::{MAX_DEMANDS, NO_METRIC, error, whole_metric, whole_rate};
use crate::network::{Demand, Provider};
use crate::topology::{
    Draft, DraftEdge, DraftRouter, Fault, MAX_EDGES, MAX_ROUTERS, RouterId, Topology,
};

/// The bits per second of a capacity or demand of 1.
const KILOBIT: f64 = 1e3;
/// The columns of the sections.
const NODE: &str = "label x y";
const EDGE: &str = "label src dest weight bw delay";
const DEMAND: &str = "label src dest bw";

/// Lines that are not blank, with their numbers from 1.
struct Lines<'a, I: Iterator<Item = (&'a str, usize)>> {
    lines: I,
    last: usize,
}

fn fault<T>(line: usize, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { line, message: message.into() })
}

impl<'a, I: Iterator<Item = (&'a str, usize)>> Lines<'a, I> {
    fn next(&mut self, expected: &str) -> Result<&'a str, Fault> {
        match self.lines.next() {
            Some((line, at)) => {
                self.last = at;
                Ok(line)
            }
            None => fault(self.last, format!("the file ends instead of {expected}")),
        }
    }

    /// Reads the head of a section, `NAME NUMBER`, and the line with its columns; returns the
    /// number of its lines.
    fn section(&mut self, name: &str, columns: &str, most: usize) -> Result<usize, Fault> {
        let expected = format!("`{name} NUMBER`");
        let line = self.next(&expected)?;
        let count = line.strip_prefix(name).and_then(|count| count.trim().parse().ok());
        let Some(count) = count else {
            return fault(self.last, format!("{line:?} is here instead of {expected}"));
        };
        if count > most {
            return fault(self.last, format!("there are more than {most}"));
        }
        let expected = format!("`{columns}`");
        let line = self.next(&expected)?;
        match line.split_whitespace().eq(columns.split(' ')) {
            true => Ok(count),
            false => fault(self.last, format!("{line:?} is here instead of {expected}")),
        }
    }

    /// Reads a line of `N` words in these columns.
    fn words<const N: usize>(&mut self, columns: &str) -> Result<[&'a str; N], Fault> {
        let line = self.next(&format!("a line of `{columns}`"))?;
        let words: Vec<&str> = line.split_whitespace().take(N + 1).collect();
        words.try_into().or_else(|_| fault(self.last, format!("{line:?} is not `{columns}`")))
    }

    fn rate(&self, word: &str) -> Result<Rate, Fault> {
        let rate = word.parse().ok().and_then(|number: f64| whole_rate(number * KILOBIT));
        let message = || format!("{word:?} is not a rate: write kbit/s, at most 10^12");
        rate.map_or_else(|| fault(self.last, message()), Ok)
    }

    /// Checks that nothing follows.
    fn end(&mut self) -> Result<(), Fault> {
        match self.lines.next() {
            None => Ok(()),
            Some((line, at)) => {
                fault(at, format!("{line:?} is here instead of the end: is the number wrong?"))
            }
        }
    }
}

fn lines(text: &str) -> Lines<'_, impl Iterator<Item = (&str, usize)>> {
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    Lines { lines, last: 1 }
}

/// Reads the network in a `.graph` text of REPETITA. Edges have one direction.
///
/// # Errors
/// If the text is not of that format, or not a network.
pub fn repetita(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let at_line = |fault: Fault| error(file, Some(fault.line), fault.message);
    draft(text).and_then(Draft::finish).map_err(at_line)
}

fn draft(text: &str) -> Result<Draft, Fault> {
    let mut lines = lines(text);
    let mut draft = Draft { directed: true, ..Draft::default() };
    for number in 0..lines.section("NODES", NODE, MAX_ROUTERS)? {
        let [label, _x, _y] = lines.words(NODE)?;
        let (id, label, line) = (number.to_string(), Some(label.to_owned()), lines.last);
        draft.routers.push(DraftRouter { id, label, line, ..DraftRouter::default() });
    }
    for _ in 0..lines.section("EDGES", EDGE, MAX_EDGES)? {
        let [_label, from, to, weight, capacity, _delay] = lines.words(EDGE)?;
        let metric = weight.parse().ok().and_then(whole_metric);
        draft.edges.push(DraftEdge {
            from: from.to_owned(),
            to: to.to_owned(),
            capacity: Some(lines.rate(capacity)?),
            metric: Some(metric.map_or_else(|| fault(lines.last, NO_METRIC), Ok)?),
            directed: None,
            line: lines.last,
        });
    }
    lines.end()?;
    Ok(draft)
}

/// Reads the demands in a `.demands` text of REPETITA. A demand is that of the provider with an
/// entry at its source. Numbers of nodes are those of the topology's routers in their order.
///
/// # Errors
/// If the text is not of that format, a number is that of no router, or the source is not the entry
/// of one provider.
pub fn demands_repetita(
    file: &Path,
    text: &str,
    providers: &[Provider],
    topology: &Topology,
) -> Result<Vec<Demand>, ConfigError> {
    let read = || {
        let sources = Sources::new(providers, topology);
        let mut lines = lines(text);
        let mut demands = Vec::new();
        for _ in 0..lines.section("DEMANDS", DEMAND, MAX_DEMANDS)? {
            let [_label, from, to, rate] = lines.words(DEMAND)?;
            let router = |word: &str| {
                let routers = topology.routers().len();
                let number = word.parse().ok().filter(|n: &u32| (*n as usize) < routers);
                let message =
                    || format!("{word:?} is no node: write 0 to {}", routers.saturating_sub(1));
                number.map_or_else(|| fault(lines.last, message()), |n| Ok(RouterId(n)))
            };
            let (from, to, rate) = (router(from)?, router(to)?, lines.rate(rate)?);
            let demand = sources.demand(from, to, rate);
            demands.push(demand.or_else(|message| fault(lines.last, message))?);
        }
        lines.end()?;
        Ok(demands)
    };
    read().map_err(|fault: Fault| error(file, Some(fault.line), fault.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::demands::tests::provider;

    /// A ring of three nodes, of which two have the same label.
    const GRAPH: &str = "NODES 3\nlabel x y\n0_West -7.5 50.0\nEast 2 49\nEast 3 48\n\nEDGES 6\n\
        label src dest weight bw delay\nedge_0 0 1 10 100000 4000\nedge_1 1 0 10 100000 4000\n\
        edge_2 1 2 5 2500.5 100\nedge_3 2 1 7 2500 100\nedge_4 2 0 1 1e6 100\n\
        edge_5 0 2 1 1000000 100\n";

    fn parse(text: &str) -> Result<Topology, String> {
        repetita("a.graph".as_ref(), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_network() {
        let topology = parse(GRAPH).unwrap();
        let names: Vec<_> = topology.routers().iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["0_West", "East#1", "East#2"]);
        let links: Vec<_> = topology
            .links()
            .iter()
            .map(|l| (l.from.0, l.to.0, l.metric, l.capacity.unwrap().as_bps()))
            .collect();
        // kbit/s: 100 000 are 100 Mbit/s, 2500.5 are 2 500 500 bit/s.
        let expected = [
            (0, 1, 10, 100_000_000),
            (0, 2, 1, 1_000_000_000),
            (1, 0, 10, 100_000_000),
            (1, 2, 5, 2_500_500),
            (2, 0, 1, 1_000_000_000),
            (2, 1, 7, 2_500_000),
        ];
        assert_eq!(links, expected);
    }

    #[test]
    fn errors_say_what_was_expected() {
        let without = |line: &str| GRAPH.replacen(line, "", 1);
        let with = |old: &str, new: &str| GRAPH.replacen(old, new, 1);
        let cases = [
            (String::new(), "a.graph:1: the file ends instead of `NODES NUMBER`"),
            (with("NODES 3", "nodes"), "a.graph:1: \"nodes\" is here instead of `NODES NUMBER`"),
            (with("label x y", "x y"), "a.graph:2: \"x y\" is here instead of `label x y`"),
            (with("NODES 3", "NODES 4"), "a.graph:7: \"EDGES 6\" is not `label x y`"),
            (with("East 2 49", "East 49"), "a.graph:4: \"East 49\" is not `label x y`"),
            (
                with("NODES 3", "NODES 2"),
                "a.graph:5: \"East 3 48\" is here instead of `EDGES NUMBER`",
            ),
            (
                without("edge_5 0 2 1 1000000 100\n"),
                "a.graph:13: the file ends instead of a line of `label src dest weight bw delay`",
            ),
            (
                with("EDGES 6", "EDGES 5"),
                "a.graph:14: \"edge_5 0 2 1 1000000 100\" is here instead of the end: is the number \
                 wrong?",
            ),
            (with("2500.5", "-1"), "a.graph:11: \"-1\" is not a rate: write kbit/s, at most 10^12"),
            (
                with("edge_2 1 2 5", "edge_2 1 2 0"),
                "a.graph:11: a metric is invalid: write 1 to 16777214",
            ),
            (with("edge_2 1 2", "edge_2 1 3"), "a.graph:11: an edge names the unknown router 3"),
            (with("NODES 3", "NODES 20001"), "a.graph:1: there are more than 20000"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn demands_by_number() {
        let topology = parse(GRAPH).unwrap();
        let providers = [provider("x", &[0]), provider("y", &[2, 1]), provider("z", &[1])];
        let parse = |text: &str| {
            demands_repetita("d".as_ref(), text, &providers, &topology).map_err(|e| e.to_string())
        };
        let text = "DEMANDS 2\nlabel src dest bw\ndemand_0 0 1 1500\ndemand_1 2 0 0.5\n";
        let demand = |provider, entry, egress, bps| Demand {
            provider,
            entry,
            egress: RouterId(egress),
            rate: Rate::from_bps(bps),
        };
        assert_eq!(parse(text).unwrap(), [demand(0, 0, 1, 1_500_000), demand(1, 0, 0, 500)]);
        let errors = [
            ("_0 0 3 1", "d:3: \"3\" is no node: write 0 to 2"),
            ("_0 East 2 1", "d:3: \"East\" is no node: write 0 to 2"),
            ("_0 0 1", "d:3: \"_0 0 1\" is not `label src dest bw`"),
            ("_0 0 1 x", "d:3: \"x\" is not a rate: write kbit/s, at most 10^12"),
            (
                "_0 1 0 5",
                "d:3: several providers have an entry at East#1: y and z; this format cannot say \
                 whose demand it is",
            ),
        ];
        for (line, expected) in errors {
            let text = format!("DEMANDS 1\nlabel src dest bw\n{line}\n");
            assert_eq!(parse(&text).unwrap_err(), expected);
        }
    }
}
