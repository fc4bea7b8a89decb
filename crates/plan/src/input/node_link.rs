//! Reads node-link JSON, as networkx writes it: `{"nodes": [...], "links": [...]}`.

use std::path::Path;

use forebay_config::ConfigError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input::{error, line_within, rate, whole_rate};
use crate::topology::{Draft, DraftEdge, DraftRouter, Topology};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    directed: bool,
    #[serde(borrow)]
    nodes: Vec<&'a RawValue>,
    /// The links: networkx writes `links` before version 3.4; later versions may write `edges`.
    #[serde(borrow, alias = "edges")]
    links: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    fn text(self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Text(text) => text,
        }
    }
}

#[derive(Deserialize)]
struct NodeLine {
    id: Id,
    #[serde(alias = "name")]
    label: Option<String>,
    /// Whether users can be behind the router.
    #[serde(default = "yes")]
    serves: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct LinkLine {
    source: Id,
    target: Id,
    capacity: Option<Capacity>,
    metric: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Capacity {
    Number(f64),
    Text(String),
}

/// Reads the network in a node-link JSON text.
///
/// A node has an `id`, and may have a `label` or `name`, and `serves`, which is false for routers
/// without users. A link has `source` and `target`, and may have a `capacity` (bits per second, or
/// a text such as `"10 Gbit/s"`) and a `metric` (1 to 65535).
///
/// # Errors
/// If the text is not such JSON, or not a network.
pub fn node_link(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let parsed: File<'_> = serde_json::from_str(text).map_err(|e| json_error(file, None, &e))?;
    let mut draft = Draft { name: parsed.name, directed: parsed.directed, ..Draft::default() };
    let mut lines = Lines { text, counted: 0, line: 1 };
    for raw in parsed.nodes {
        let line = lines.of(raw.get());
        let node: NodeLine =
            serde_json::from_str(raw.get()).map_err(|e| json_error(file, Some(line), &e))?;
        draft.routers.push(DraftRouter {
            id: node.id.text(),
            label: node.label,
            external: !node.serves,
            hyperedge: false,
            line,
        });
    }
    let mut lines = Lines { text, counted: 0, line: 1 };
    for raw in parsed.links {
        let line = lines.of(raw.get());
        let link: LinkLine =
            serde_json::from_str(raw.get()).map_err(|e| json_error(file, Some(line), &e))?;
        let capacity = link.capacity.map(|c| match c {
            Capacity::Number(n) => whole_rate(n)
                .ok_or_else(|| "a capacity is not a rate: write bits per second".to_owned()),
            Capacity::Text(text) => rate(&text),
        });
        if link.metric == Some(0) {
            return Err(error(file, Some(line), "a metric is 0: write 1 to 65535"));
        }
        draft.edges.push(DraftEdge {
            from: link.source.text(),
            to: link.target.text(),
            capacity: capacity.transpose().map_err(|message| error(file, Some(line), message))?,
            metric: link.metric.map(u32::from),
            line,
        });
    }
    draft.finish().map_err(|fault| error(file, Some(fault.line), fault.message))
}

/// Counts lines incrementally, since counting from the start for each element would be slow.
pub(super) struct Lines<'a> {
    pub(super) text: &'a str,
    pub(super) counted: usize,
    pub(super) line: usize,
}

impl Lines<'_> {
    /// Returns the line of `part` of the text, which must not precede the part of the last call.
    pub(super) fn of(&mut self, part: &str) -> usize {
        let at = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        match self.text.as_bytes().get(self.counted..at) {
            Some(between) => {
                self.line += between.iter().filter(|b| **b == b'\n').count();
                self.counted = at;
                self.line
            }
            None => line_within(self.text, part),
        }
    }
}

/// Converts an error of serde's. `first` is the line where the parsed part begins, if it is not the
/// whole file.
pub(super) fn json_error(file: &Path, first: Option<usize>, e: &serde_json::Error) -> ConfigError {
    let text = e.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    error(file, Some(first.unwrap_or(1) + e.line().saturating_sub(1)), message)
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;

    fn parse(text: &str) -> Result<Topology, String> {
        node_link("a.json".as_ref(), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_network() {
        let text = r#"{"name": "N", "directed": true, "multigraph": false, "graph": {},
            "nodes": [{"id": 0, "label": "A"}, {"id": "b", "serves": false, "x": 1}],
            "edges": [{"source": 0, "target": "b", "capacity": "10 Gbit/s", "metric": 5},
                      {"source": "b", "target": 0, "capacity": 1e9}]}"#;
        let topology = parse(text).unwrap();
        assert_eq!(topology.name(), "N");
        assert!(!topology.routers()[1].serves);
        let links: Vec<_> = topology.links().iter().map(|l| (l.capacity, l.metric)).collect();
        assert_eq!(links, [(Some(Rate::from_mbps(10_000)), 5), (Some(Rate::from_mbps(1000)), 1)]);
    }

    #[test]
    fn errors_name_their_line() {
        let link = |inside: &str| {
            format!(
                "{{\"nodes\": [{{\"id\": 0}}, {{\"id\": 1}}],\n\"links\": [\n{{\"source\": 0,\n{inside}}}]}}"
            )
        };
        let cases = [
            ("{\"nodes\": [],\n }".to_owned(), "a.json:2: trailing comma"),
            (link("\"target\": 4"), "a.json:3: an edge names the unknown router 4"),
            (
                link("\"target\": 1, \"capacity\": -5"),
                "a.json:3: a capacity is not a rate: write bits per second",
            ),
            (link("\"metric\": 1"), "a.json:4: missing field `target`"),
            (link("\"target\": 1, \"metric\": 0"), "a.json:3: a metric is 0: write 1 to 65535"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }
}
