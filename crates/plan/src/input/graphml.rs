//! Reads GraphML (<http://graphml.graphdrawing.org>), as the Topology Zoo writes it.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::ConfigError;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::input::{error, whole_rate};
use crate::topology::{Draft, DraftEdge, DraftRouter, Fault, Topology};

/// Reads the network in a GraphML text, with the same keys as [`gml`](super::gml).
///
/// # Errors
/// If the text is not XML, or has no graph that is a network. A document type is refused too: it is
/// not needed, and its entities can make a small text expand without end.
pub fn graphml(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let at_line = |fault: Fault| error(file, Some(fault.line), fault.message);
    let mut walk = Walk::default();
    let mut reader = Reader::from_str(text);
    // Lines are counted incrementally, since counting from the start for each element would be
    // slow.
    let (mut counted, mut line) = (0, 1);
    loop {
        let event = reader.read_event();
        let end = (reader.buffer_position() as usize).clamp(counted, text.len());
        let start = line;
        line += text.as_bytes()[counted..end].iter().filter(|b| **b == b'\n').count();
        counted = end;
        // Errors name the line where an event begins.
        match event {
            Ok(Event::Eof) => break,
            Ok(event) => walk.take(event, start).map_err(at_line)?,
            Err(e) => return Err(error(file, Some(line), format!("is not valid GraphML: {e}"))),
        }
    }
    if !walk.open.is_empty() {
        return Err(error(file, Some(line), "is not complete GraphML: it ends inside an element"));
    }
    if !walk.graph {
        return Err(error(file, Some(1), "has no graph: put nodes and edges in <graphml><graph>"));
    }
    walk.draft.finish().map_err(at_line)
}

/// The deepest nesting of elements; the Topology Zoo has four levels.
const DEEPEST: usize = 64;

/// An open element that the reader uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Graph,
    Node,
    Edge,
    Data,
    Other,
}

/// The position in the document, and what was found so far.
#[derive(Default)]
struct Walk {
    open: Vec<Element>,
    /// Whether there is a graph.
    graph: bool,
    /// The names of keys, by their ids.
    keys: BTreeMap<String, String>,
    /// The id of the key of the open datum, and its text so far.
    datum: (String, String),
    draft: Draft,
}

impl Walk {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        let fault = |message: String| Fault { line, message };
        let not_xml = |e: quick_xml::Error| fault(format!("is not valid GraphML: {e}"));
        match event {
            Event::DocType(_) => {
                return Err(fault(
                    "has a document type, which is not supported: remove it".to_owned(),
                ));
            }
            Event::Start(tag) => self.begin(&tag, line)?,
            Event::Empty(tag) => {
                self.begin(&tag, line)?;
                self.end(line)?;
            }
            Event::End(_) => self.end(line)?,
            Event::Text(text) if self.open.last() == Some(&Element::Data) => {
                self.datum.1.push_str(&text.decode().map_err(|e| not_xml(e.into()))?);
            }
            Event::CData(text) if self.open.last() == Some(&Element::Data) => {
                self.datum.1.push_str(&text.decode().map_err(|e| not_xml(e.into()))?);
            }
            Event::GeneralRef(entity) if self.open.last() == Some(&Element::Data) => {
                let c = character(&entity).ok_or_else(|| {
                    fault("is not valid GraphML: an entity is unknown".to_owned())
                })?;
                self.datum.1.push(c);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, tag: &BytesStart<'_>, line: usize) -> Result<(), Fault> {
        let fault = |message: &str| Fault { line, message: message.to_owned() };
        if self.open.len() == DEEPEST {
            return Err(fault("is not GraphML of a network: elements are nested too deeply"));
        }
        let attributes = attributes(tag)
            .ok_or_else(|| fault("is not valid GraphML: an attribute cannot be read"))?;
        let attribute = |name: &str| attributes.get(name).cloned();
        let element = match (tag.local_name().as_ref(), self.open.last()) {
            (b"key", _) => {
                if let (Some(id), Some(name)) = (attribute("id"), attribute("attr.name")) {
                    self.keys.insert(id, name);
                }
                Element::Other
            }
            // The first graph counts; a graph inside a node is a separate one.
            (b"graph", _) if !self.graph => {
                self.graph = true;
                self.draft.directed = attribute("edgedefault").as_deref() == Some("directed");
                Element::Graph
            }
            (b"node", Some(Element::Graph)) => {
                let id = attribute("id").ok_or_else(|| fault("a node has no id: give it one"))?;
                self.draft.routers.push(DraftRouter { id, line, ..DraftRouter::default() });
                Element::Node
            }
            (b"edge", Some(Element::Graph)) => {
                let end = |name| {
                    attribute(name)
                        .ok_or_else(|| fault("an edge has no source or no target: give it both"))
                };
                let (from, to) = (end("source")?, end("target")?);
                self.draft.edges.push(DraftEdge { from, to, line, ..DraftEdge::default() });
                Element::Edge
            }
            (b"data", Some(Element::Graph | Element::Node | Element::Edge)) => {
                let key = attribute("key").and_then(|id| self.keys.get(&id).cloned());
                self.datum = (key.unwrap_or_default(), String::new());
                Element::Data
            }
            _ => Element::Other,
        };
        self.open.push(element);
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), Fault> {
        if self.open.pop() != Some(Element::Data) {
            return Ok(());
        }
        let fault = |message: &str| Fault { line, message: message.to_owned() };
        let (key, value) = std::mem::take(&mut self.datum);
        let value = value.trim();
        let (routers, edges) = (&mut self.draft.routers, &mut self.draft.edges);
        match (self.open.last(), key.as_str()) {
            (Some(Element::Graph), "Network" | "label") if self.draft.name.is_empty() => {
                self.draft.name = value.to_owned();
            }
            (Some(Element::Node), key) => {
                let Some(router) = routers.last_mut() else { return Ok(()) };
                match key {
                    "label" => router.label = Some(value.to_owned()),
                    "Internal" => router.external = value == "0",
                    "hyperedge" => router.hyperedge = value == "1",
                    _ => {}
                }
            }
            (Some(Element::Edge), "LinkSpeedRaw" | "capacity") => {
                let rate = value.parse().ok().and_then(whole_rate);
                let rate =
                    rate.ok_or_else(|| fault("a capacity is not a rate: write bits per second"))?;
                edges.last_mut().into_iter().for_each(|e| e.capacity = Some(rate));
            }
            (Some(Element::Edge), "metric") => {
                let metric = value.parse::<u32>().ok().filter(|m| (1..=65535).contains(m));
                let metric =
                    metric.ok_or_else(|| fault("a metric is invalid: write 1 to 65535"))?;
                edges.last_mut().into_iter().for_each(|e| e.metric = Some(metric));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the attributes by their local names; `None` if one cannot be read.
fn attributes(tag: &BytesStart<'_>) -> Option<BTreeMap<String, String>> {
    let read = tag.attributes().map(|attribute| {
        let attribute = attribute.ok()?;
        let name = String::from_utf8(attribute.key.local_name().as_ref().to_vec()).ok()?;
        Some((name, attribute.unescape_value().ok()?.into_owned()))
    });
    read.collect()
}

/// Returns the character of an entity: one of XML's five, or a numeric one.
fn character(entity: &BytesRef<'_>) -> Option<char> {
    if entity.is_char_ref() {
        return entity.resolve_char_ref().ok().flatten();
    }
    match &entity[..] {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;

    fn parse(text: &str) -> Result<Topology, String> {
        graphml("a.graphml".as_ref(), text).map_err(|e| e.to_string())
    }

    fn file(inside: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
             <key attr.name=\"label\" for=\"node\" id=\"d0\"/><key attr.name=\"LinkSpeedRaw\" for=\"edge\" id=\"d1\"/>\
             <key attr.name=\"Network\" for=\"graph\" id=\"d2\"/>\n<graph edgedefault=\"undirected\">\n{inside}</graph></graphml>"
        )
    }

    #[test]
    fn a_network() {
        let text = file(
            "<data key=\"d2\">N</data><node id=\"0\"><data key=\"d0\">A &amp; B</data></node>\n<node id=\"1\"/>\n\
             <edge source=\"0\" target=\"1\"><data key=\"d1\">1e9</data></edge>",
        );
        let topology = parse(&text).unwrap();
        assert_eq!((topology.name(), topology.routers()[0].name.as_str()), ("N", "A & B"));
        assert_eq!(topology.links().len(), 2);
        assert_eq!(topology.links()[1].capacity, Some(Rate::from_mbps(1000)));
    }

    #[test]
    fn errors_name_their_line() {
        let two = "<node id=\"0\"/>\n<node id=\"1\"/>\n";
        let cases = [
            (
                file(&format!("{two}<edge source=\"0\"/>")),
                "a.graphml:6: an edge has no source or no target: give it both",
            ),
            (
                file(&format!("{two}<edge source=\"0\" target=\"5\"/>")),
                "a.graphml:6: an edge names the unknown router 5",
            ),
            (
                file(&format!(
                    "{two}<edge source=\"0\" target=\"1\"><data key=\"d1\">fast</data></edge>"
                )),
                "a.graphml:6: a capacity is not a rate: write bits per second",
            ),
            (
                "<graphml/>".to_owned(),
                "a.graphml:1: has no graph: put nodes and edges in <graphml><graph>",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected);
        }
        let error = parse("<graphml>\n<graph x>").unwrap_err();
        assert!(error.starts_with("a.graphml:2: is not valid GraphML: "), "{error}");
        assert_eq!(
            parse("<graphml>\n<graph>").unwrap_err(),
            "a.graphml:2: is not complete GraphML: it ends inside an element"
        );
        assert!(parse(&"<a>".repeat(100_000)).unwrap_err().contains("nested too deeply"));
        let bomb = "<!DOCTYPE a [<!ENTITY x \"xx\">]><graphml/>";
        let error = parse(bomb).unwrap_err();
        assert!(error.starts_with("a.graphml:1: has a document type"), "{error}");
    }
}
