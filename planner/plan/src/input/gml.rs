//! Reads GML (M. Himsolt, "GML: A portable Graph File Format", 1997), as the Topology Zoo writes
//! it.

use std::path::Path;

use forebay_config::ConfigError;

use crate::input::{error, link_name, truth, whole_id, whole_metric, whole_rate};
use crate::topology::{Draft, DraftEdge, DraftRouter, Fault, Topology};

/// The deepest nesting of lists; the Topology Zoo has three levels.
const DEEPEST: usize = 16;

/// Reads the network in a GML text.
///
/// It uses `id`, `label`, `Internal` and `hyperedge` of nodes, and `source`, `target`,
/// `LinkSpeedRaw` or `capacity` (bits per second) and `metric` of edges. Other keys are ignored.
///
/// # Errors
/// If the text is not GML with a graph, or the graph is not a network.
pub fn gml(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let at_line = |fault: Fault| error(file, Some(fault.line), fault.message);
    let mut tokens = Tokens { rest: text, line: 1 };
    let root = list(&mut tokens, 0).map_err(at_line)?;
    let graph = root.iter().find(|e| e.key == "graph");
    let Some(Entry { value: Value::List(graph), .. }) = graph else {
        return Err(error(
            file,
            Some(1),
            "has no graph: write `graph [ ... ]` around nodes and edges",
        ));
    };
    draft(graph).and_then(Draft::finish).map_err(at_line)
}

struct Entry<'a> {
    key: &'a str,
    value: Value<'a>,
    line: usize,
}

enum Value<'a> {
    Number(f64, &'a str),
    Text(&'a str),
    List(Vec<Entry<'a>>),
}

enum Token<'a> {
    Word(&'a str),
    Text(&'a str),
    Open,
    Close,
}

struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Tokens<'a> {
    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault { line: self.line, message: message.into() })
    }

    /// Consumes `length` bytes, and counts their lines.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.bytes().filter(|b| *b == b'\n').count();
        self.rest = rest;
        taken
    }

    fn next(&mut self) -> Result<Option<Token<'a>>, Fault> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if !self.rest.starts_with('#') {
                break;
            }
            // A comment ends with its line.
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.take(end);
        }
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            '[' => {
                self.take(1);
                Token::Open
            }
            ']' => {
                self.take(1);
                Token::Close
            }
            '"' => {
                let Some(end) = self.rest[1..].find('"') else {
                    return self.fault("a text is not closed: close it with \"");
                };
                Token::Text(&self.take(end + 2)[1..=end])
            }
            _ => {
                let end = self.rest.find(|c: char| c.is_whitespace() || "[]\"".contains(c));
                Token::Word(self.take(end.unwrap_or(self.rest.len())))
            }
        };
        Ok(Some(token))
    }
}

/// Reads the entries up to the `]` of this list, or to the end of the text for the outermost list.
fn list<'a>(tokens: &mut Tokens<'a>, depth: usize) -> Result<Vec<Entry<'a>>, Fault> {
    let mut entries = Vec::new();
    loop {
        let key = match tokens.next()? {
            None if depth == 0 => return Ok(entries),
            None => return tokens.fault("the file ends inside a list: close it with ]"),
            Some(Token::Close) if depth > 0 => return Ok(entries),
            Some(Token::Close) => return tokens.fault("a ] closes no list: remove it"),
            Some(Token::Word(key)) => key,
            Some(Token::Open | Token::Text(_)) => {
                return tokens.fault("a value has no key: write `key value`");
            }
        };
        let line = tokens.line;
        let value = match tokens.next()? {
            Some(Token::Open) if depth < DEEPEST => Value::List(list(tokens, depth + 1)?),
            Some(Token::Open) => {
                return tokens.fault("lists are nested too deeply for a network");
            }
            Some(Token::Text(text)) => Value::Text(text),
            Some(Token::Word(word)) => match word.parse() {
                Ok(number) => Value::Number(number, word),
                Err(_) => {
                    return tokens
                        .fault(format!("{word} is not a value of {key}: put texts in \"\""));
                }
            },
            Some(Token::Close) | None => return tokens.fault(format!("{key} has no value")),
        };
        entries.push(Entry { key, value, line });
    }
}

impl Value<'_> {
    /// Returns the value as an id or a label.
    fn name(&self) -> Option<String> {
        match self {
            Self::Number(_, word) => Some((*word).to_owned()),
            Self::Text(text) => Some(unescaped(text)),
            Self::List(_) => None,
        }
    }

    /// Returns the value as an id.
    fn id(&self) -> Option<String> {
        match self {
            Self::Number(_, word) => Some(whole_id(word)),
            other => other.name(),
        }
    }

    fn truth(&self) -> Option<bool> {
        match self {
            Self::Number(number, _) => [0.0, 1.0].contains(number).then_some(*number == 1.0),
            Self::Text(text) => truth(text),
            Self::List(_) => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number, _) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            Self::List(_) => None,
        }
    }
}

/// Resolves HTML entities, which GML uses for `"`, `&` and characters beyond ASCII; unknown ones
/// stay as they are.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, entity) = rest.split_at(at);
        out.push_str(before);
        let end = entity.char_indices().take(12).find(|(_, c)| *c == ';').map(|(end, _)| end);
        let known = end.and_then(|end| {
            let name = &entity[1..end];
            let code = match name {
                "amp" => Some('&'),
                "quot" => Some('"'),
                "lt" => Some('<'),
                "gt" => Some('>'),
                "apos" => Some('\''),
                _ => name.strip_prefix('#').and_then(|n| n.parse().ok()).and_then(char::from_u32),
            };
            code.map(|c| (c, end + 1))
        });
        let length = match known {
            Some((c, length)) => {
                out.push(c);
                length
            }
            None => {
                out.push('&');
                1
            }
        };
        rest = &entity[length..];
    }
    out.push_str(rest);
    out
}

fn draft(graph: &[Entry<'_>]) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    for entry in graph {
        match (entry.key, &entry.value) {
            ("directed", value) => draft.directed = value.truth() == Some(true),
            ("Network" | "label", value) if draft.name.is_empty() => {
                draft.name = value.name().unwrap_or_default();
            }
            ("node", Value::List(node)) => draft.routers.push(router(node, entry.line)?),
            ("edge", Value::List(edge)) => draft.edges.push(self::edge(edge, entry.line)?),
            _ => {}
        }
    }
    Ok(draft)
}

fn router(node: &[Entry<'_>], line: usize) -> Result<DraftRouter, Fault> {
    let mut router = DraftRouter { line, ..DraftRouter::default() };
    for entry in node {
        match entry.key {
            "id" => router.id = entry.value.id().unwrap_or_default(),
            "label" => router.label = entry.value.name(),
            "Internal" => router.external = entry.value.truth() == Some(false),
            "hyperedge" => router.hyperedge = entry.value.truth() == Some(true),
            _ => {}
        }
    }
    if router.id.is_empty() {
        return Err(Fault { line, message: "a node has no id: give it one".to_owned() });
    }
    Ok(router)
}

fn edge(entries: &[Entry<'_>], line: usize) -> Result<DraftEdge, Fault> {
    let mut edge = DraftEdge { line, ..DraftEdge::default() };
    let end = |key| entries.iter().find(|e| e.key == key).and_then(|e| e.value.id());
    let name = link_name(&end("source").unwrap_or_default(), &end("target").unwrap_or_default());
    for entry in entries {
        let fault = |what| Fault {
            line: entry.line,
            message: format!("{name}: {} is not a {what}", entry.key),
        };
        match entry.key {
            "source" => edge.from = entry.value.id().unwrap_or_default(),
            "target" => edge.to = entry.value.id().unwrap_or_default(),
            "LinkSpeedRaw" | "capacity" => {
                let rate = entry.value.number().and_then(whole_rate);
                edge.capacity =
                    Some(rate.ok_or_else(|| fault("rate: write bits per second, at most 10^15"))?);
            }
            "metric" => {
                let metric = entry.value.number().and_then(whole_metric);
                edge.metric = Some(metric.ok_or_else(|| fault("metric: write 1 to 16777214"))?);
            }
            _ => {}
        }
    }
    if edge.from.is_empty() || edge.to.is_empty() {
        return Err(Fault {
            line,
            message: "an edge has no source or no target: give it both".to_owned(),
        });
    }
    Ok(edge)
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;

    fn parse(text: &str) -> Result<Topology, String> {
        gml("a.gml".as_ref(), text).map_err(|e| e.to_string())
    }

    const SMALL: &str = "# a comment\ngraph [\n  Network \"S &amp; T &#246; &foo;\"\n  node [ id 0 label \"A\" Longitude -7.5 Internal 1 ]\n\
         node [ id 1 label \"B\" Internal 0 ]\n node [ id 2 hyperedge 1 ]\n\
         edge [ source 0 target 1 LinkSpeedRaw 2500000000.0 metric 10 ]\n edge [ source 1 target 2 ]\n]\n";

    #[test]
    fn a_network() {
        let topology = parse(SMALL).unwrap();
        assert_eq!(topology.name(), "S & T \u{f6} &foo;");
        let routers: Vec<_> =
            topology.routers().iter().map(|r| (r.name.as_str(), r.serves)).collect();
        assert_eq!(routers, [("A", true), ("B", false), ("#2", false)]);
        let link = topology.links()[0];
        assert_eq!((link.capacity, link.metric), (Some(Rate::from_mbps(2500)), 10));
        assert_eq!(topology.links().len(), 4);
    }

    #[test]
    fn numbers_may_be_floats_and_truths_words() {
        let text = "graph [ directed 0.0 node [ id 0.0 Internal \"False\" ] node [ id 1.0E+0 ]\n\
                    edge [ source 0 target 1 LinkSpeedRaw 1.0E+10 metric 10.0 ] ]";
        let topology = parse(text).unwrap();
        assert_eq!((topology.links().len(), topology.routers()[0].serves), (2, false));
        let link = topology.links()[0];
        assert_eq!((link.capacity, link.metric), (Some(Rate::from_mbps(10_000)), 10));
    }

    #[test]
    fn errors_name_their_line() {
        let cases = [
            ("graph [\n node [ id 0\n", "a.gml:3: the file ends inside a list: close it with ]"),
            ("graph [\n ]\n]", "a.gml:3: a ] closes no list: remove it"),
            (
                "graph [\n node [ id 0 ]\n edge [ source 0\n target 7 ] ]",
                "a.gml:3: an edge names the unknown router 7",
            ),
            ("graph [\n node [ label \"x\" ] ]", "a.gml:2: a node has no id: give it one"),
            (
                "graph [\n node [ id 0 ]\n edge [\n source 0 target 0 LinkSpeedRaw -3 ] ]",
                "a.gml:4: the link from 0 to 0: LinkSpeedRaw is not a rate: write bits per second, at most 10^15",
            ),
            ("graph [\n label \"x ]", "a.gml:2: a text is not closed: close it with \""),
            ("graph [\n label x ]", "a.gml:2: x is not a value of label: put texts in \"\""),
            (
                "node [ id 0 ]",
                "a.gml:1: has no graph: write `graph [ ... ]` around nodes and edges",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
        assert!(parse(&"a [ ".repeat(100_000)).unwrap_err().contains("too deep"));
    }
}
