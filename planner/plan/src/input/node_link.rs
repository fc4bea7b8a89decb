//! Reads node-link JSON, as networkx writes it: `{"nodes": [...], "links": [...]}`.

use std::borrow::Cow;
use std::path::Path;

use forebay_config::ConfigError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input::{
    NO_CAPACITY, NO_METRIC, error, json_message, line_within, link_name, rate, whole_id,
    whole_metric, whole_rate,
};
use crate::topology::{Draft, DraftEdge, DraftRouter, Topology};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    directed: bool,
    /// The attributes of the graph, among which networkx writes its name.
    #[serde(default)]
    graph: serde_json::Value,
    #[serde(borrow)]
    nodes: Vec<&'a RawValue>,
    /// The links: networkx writes `links` before version 3.4; later versions may write `edges`.
    #[serde(borrow)]
    links: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    edges: Option<Vec<&'a RawValue>>,
}

/// The deepest nesting of an id that is a list.
const DEEPEST: usize = 8;

/// Returns an id, or a label, as a text: a number, a text, or a list, as which networkx writes a
/// tuple of Python. `None` if it is something else.
fn text_of(raw: &RawValue, depth: usize) -> Option<String> {
    let written = raw.get();
    match written.as_bytes().first()? {
        b'"' => serde_json::from_str(written).ok(),
        b'[' if depth < DEEPEST => {
            let items: Vec<&RawValue> = serde_json::from_str(written).ok()?;
            let items: Option<Vec<String>> =
                items.into_iter().map(|item| text_of(item, depth + 1)).collect();
            Some(format!("({})", items?.join(", ")))
        }
        // Large numbers keep all of their digits.
        b'-' | b'0'..=b'9' => Some(whole_id(written)),
        b't' | b'f' => Some(written.to_owned()),
        _ => None,
    }
}

#[derive(Deserialize)]
struct NodeLine<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    label: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    /// Whether users can be behind the router.
    #[serde(default = "yes")]
    serves: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct LinkLine<'a> {
    #[serde(borrow)]
    source: &'a RawValue,
    #[serde(borrow)]
    target: &'a RawValue,
    #[serde(borrow)]
    capacity: Option<&'a RawValue>,
    #[serde(borrow)]
    metric: Option<&'a RawValue>,
}

/// A value that is a number, or a text.
enum Value {
    Number(f64),
    Text(String),
}

impl Value {
    /// Returns the value; `None` if it is of another type.
    fn of(raw: &RawValue) -> Option<Self> {
        let written = raw.get();
        let text = serde_json::from_str(written).map(Self::Text);
        text.or_else(|_| serde_json::from_str(written).map(Self::Number)).ok()
    }
}

/// The numbers of Python that JSON does not have.
const NO_NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
/// What to do with a capacity that is none of JSON's numbers.
const UNLIMITED: &str = "write bits per second, or leave it out if the link limits nothing";

/// Puts quotes around numbers that Python writes and JSON does not have. They may stand at any key,
/// and most keys are not used.
pub(super) fn with_quoted_numbers(text: &str) -> Cow<'_, str> {
    let begins = |at: usize| NO_NUMBERS.iter().find(|word| text[at..].starts_with(*word));
    if !NO_NUMBERS.iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let (mut copied, mut at, mut is_quoted) = (0, 0, false);
    let octets = text.as_bytes();
    while at < octets.len() {
        match octets[at] {
            b'\\' if is_quoted => at += 1,
            b'"' => is_quoted = !is_quoted,
            b'N' | b'I' | b'-' if !is_quoted => {
                if let Some(word) = begins(at) {
                    out.push_str(&text[copied..at]);
                    out.extend(["\"", word, "\""]);
                    copied = at + word.len();
                    at = copied;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Says which other format of graphs a JSON text is of, and what to do.
fn other_format(text: &str) -> Option<&'static str> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let has = |key: &str| value.get(key).is_some();
    match &value {
        _ if has("adjacency") => {
            Some("is in networkx's adjacency format: write it with `nx.node_link_data`")
        }
        _ if has("elements") => Some("is in Cytoscape's format: write it with `nx.node_link_data`"),
        _ if has("children") => {
            Some("is in networkx's tree format: write it with `nx.node_link_data`")
        }
        _ if has("features") => Some("is GeoJSON, which has no nodes and links"),
        serde_json::Value::Array(_) => {
            Some("is a list: write {\"nodes\": [...], \"links\": [...]}")
        }
        serde_json::Value::Object(_) if !has("nodes") => {
            Some("has no nodes: put them in a list `nodes`")
        }
        _ => None,
    }
}

/// What is wrong with an id.
const NO_ID: &str = "an id is not a number, a text or a list of these";

/// Reads the network in a node-link JSON text.
///
/// A node has an `id`, and may have a `label`, or else a `name`, and `serves`, which is false for
/// routers without users. A link has `source` and `target`, and may have a `capacity` (bits per
/// second, or a text such as `"10 Gbit/s"`) and a `metric` (1 to 16777214).
///
/// # Errors
/// If the text is not such JSON, or not a network.
pub fn node_link(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let text = &*with_quoted_numbers(text);
    let parsed: File<'_> = serde_json::from_str(text).map_err(|e| {
        other_format(text)
            .map_or_else(|| json_error(file, None, &e), |what| error(file, Some(1), what))
    })?;
    let named = || parsed.graph.get("name")?.as_str().map(str::to_owned);
    let name = Some(parsed.name).filter(|n| !n.is_empty()).or_else(named).unwrap_or_default();
    let mut draft = Draft { name, directed: parsed.directed, ..Draft::default() };
    let mut lines = Lines { text, counted: 0, line: 1 };
    for raw in parsed.nodes {
        let line = lines.of(raw.get());
        let node: NodeLine<'_> =
            serde_json::from_str(raw.get()).map_err(|e| json_error(file, Some(line), &e))?;
        draft.routers.push(DraftRouter {
            id: text_of(node.id, 0).ok_or_else(|| error(file, Some(line), NO_ID))?,
            label: node.label.or(node.name).and_then(|label| text_of(label, 0)),
            external: !node.serves,
            hyperedge: false,
            line,
        });
    }
    let Some(links) = parsed.links.or(parsed.edges) else {
        let what = other_format(text).unwrap_or("has no links: put them in a list `links`");
        return Err(error(file, Some(1), what));
    };
    let mut lines = Lines { text, counted: 0, line: 1 };
    for raw in links {
        let line = lines.of(raw.get());
        let link: LinkLine<'_> =
            serde_json::from_str(raw.get()).map_err(|e| json_error(file, Some(line), &e))?;
        let fail = |message: String| error(file, Some(line), message);
        let end = |id| text_of(id, 0).ok_or_else(|| fail(NO_ID.to_owned()));
        let (from, to) = (end(link.source)?, end(link.target)?);
        let of_link = |what: &str| fail(format!("{}: {what}", link_name(&from, &to)));
        let capacity = link.capacity.map(|raw| match Value::of(raw) {
            Some(Value::Number(n)) => whole_rate(n).ok_or_else(|| NO_CAPACITY.to_owned()),
            Some(Value::Text(text)) if NO_NUMBERS.contains(&text.as_str()) => {
                Err(format!("its capacity is {text}: {UNLIMITED}"))
            }
            Some(Value::Text(text)) => rate(&text),
            None => Err(NO_CAPACITY.to_owned()),
        });
        let metric = link.metric.map(|raw| {
            let metric = match Value::of(raw) {
                Some(Value::Number(n)) => whole_metric(n),
                Some(Value::Text(text)) => text.trim().parse().ok().and_then(whole_metric),
                None => None,
            };
            metric.ok_or_else(|| of_link(NO_METRIC))
        });
        draft.edges.push(DraftEdge {
            capacity: capacity.transpose().map_err(|what| of_link(&what))?,
            metric: metric.transpose()?,
            directed: None,
            line,
            from,
            to,
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
    error(file, Some(first.unwrap_or(1) + e.line().saturating_sub(1)), json_message(e))
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
    fn ids_and_numbers_as_networkx_writes_them() {
        let text = r#"{"directed": false, "multigraph": false, "graph": {"name": "G"}, "nodes": [
            {"label": "A", "name": "a", "id": 0}, {"name": 7, "id": 1.0},
            {"id": [0, "x"]}, {"id": 123456789012345678901234567890}],
            "links": [{"source": 0.0, "target": 1, "metric": 10.0},
                      {"source": 1, "target": [0,"x"], "metric": null},
                      {"source": [0, "x"], "target": 123456789012345678901234567890}]}"#;
        for text in [text.to_owned(), text.replace("\"links\"", "\"edges\"")] {
            let topology = parse(&text).unwrap();
            let names: Vec<_> = topology.routers().iter().map(|r| r.name.as_str()).collect();
            let expected = ["A", "7", "#(0, x)", "#123456789012345678901234567890"];
            assert_eq!((names.as_slice(), topology.name()), (&expected[..], "G"));
            let links: Vec<_> =
                topology.links().iter().map(|l| (l.from.0, l.to.0, l.metric)).collect();
            let expected = [(0, 1, 10), (1, 0, 10), (1, 2, 1), (2, 1, 1), (2, 3, 1), (3, 2, 1)];
            assert_eq!(links, expected);
        }
        let deep = format!(
            "{{\"nodes\": [{{\"id\": {}1{}}}], \"links\": []}}",
            "[".repeat(50),
            "]".repeat(50)
        );
        assert!(parse(&deep).unwrap_err().contains("an id is not"));
        assert!(parse("{\"nodes\": []}").unwrap_err().contains("has no links"));
    }

    /// Python writes numbers that JSON does not have.
    #[test]
    fn numbers_of_python_are_ignored_where_they_are_not_used() {
        let text = |capacity: &str| {
            format!(
                "{{\"nodes\": [{{\"id\": \"a\", \"pos\": [NaN, -Infinity]}},\n\
                 {{\"id\": \"b\", \"label\": \"NaN \\\" Infinity\", \"x\": Infinity}}],\n\
                 \"links\": [{{\"source\": \"a\", \"target\": \"b\", {capacity}\"w\": NaN}}]}}"
            )
        };
        let topology = parse(&text("")).unwrap();
        assert_eq!(topology.routers()[1].name, "NaN \" Infinity");
        for number in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(
                parse(&text(&format!("\"capacity\": {number}, "))).unwrap_err(),
                format!(
                    "a.json:3: the link from a to b: its capacity is {number}: write bits per \
                     second, or leave it out if the link limits nothing"
                )
            );
        }
        let error = parse(&text("\"capacity\": [1], ")).unwrap_err();
        assert!(error.starts_with("a.json:3: the link from a to b: a capacity is"), "{error}");
        let metric = parse(&text("\"metric\": \"10\", ")).unwrap();
        assert_eq!(metric.links()[0].metric, 10);
        let error = parse(&text("\"metric\": NaN, ")).unwrap_err();
        assert!(error.starts_with("a.json:3: the link from a to b: a metric is"), "{error}");
    }

    #[test]
    fn other_formats_of_graphs_are_named() {
        for (text, expected) in [
            ("{\"directed\": false, \"nodes\": [], \"adjacency\": []}", "adjacency format"),
            ("{\"data\": [], \"elements\": {}}", "Cytoscape"),
            ("{\"id\": 1, \"children\": []}", "tree format"),
            ("{\"type\": \"FeatureCollection\", \"features\": []}", "GeoJSON"),
            ("[[0, 1]]", "is a list"),
            ("{\"links\": []}", "has no nodes"),
            ("{\"nodes\": [", "a.json:1: ends early: is the file complete?"),
            ("{'nodes': []}", "a.json:1: is no JSON here: key must be a string"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn errors_name_their_line() {
        let link = |inside: &str| {
            format!(
                "{{\"nodes\": [{{\"id\": 0}}, {{\"id\": 1}}],\n\"links\": [\n{{\"source\": 0,\n{inside}}}]}}"
            )
        };
        let cases = [
            ("{\"nodes\": [],\n }".to_owned(), "a.json:2: is no JSON here: trailing comma"),
            (link("\"target\": 4"), "a.json:3: an edge names the unknown router 4"),
            (
                link("\"target\": 1, \"capacity\": -5"),
                "a.json:3: the link from 0 to 1: a capacity is not a rate: write bits per second, at most 10^15",
            ),
            (link("\"metric\": 1"), "a.json:4: missing field `target`"),
            (
                link("\"target\": 1, \"metric\": 0"),
                "a.json:3: the link from 0 to 1: a metric is invalid: write 1 to 16777214",
            ),
            (
                link("\"target\": 1, \"metric\": 16777215"),
                "a.json:3: the link from 0 to 1: a metric is invalid: write 1 to 16777214",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }
}
