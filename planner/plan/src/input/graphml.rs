//! Reads GraphML (<http://graphml.graphdrawing.org>), as the Topology Zoo writes it.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::ConfigError;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::xml::Events;
use crate::input::{NO_CAPACITY, NO_METRIC, error, link_name, rate, truth, whole_metric};
use crate::topology::{Draft, DraftEdge, DraftRouter, Fault, Topology};

/// Reads the network in a GraphML text, with the same keys as [`gml`](super::gml).
///
/// # Errors
/// If the text is not XML, or has no graph that is a network. A document type is refused too: it is
/// not needed, and its entities can make a small text expand without end.
pub fn graphml(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let at_line = |fault: Fault| error(file, Some(fault.line), fault.message);
    let mut walk = Walk::default();
    let mut events = Events::of(text);
    loop {
        let (start, event) = events.next();
        let line = events.line;
        match event {
            Ok(Event::Eof) => break,
            Ok(event) => walk.take(event, start).map_err(at_line)?,
            Err(e) => return Err(error(file, Some(line), format!("is not valid GraphML: {e}"))),
        }
    }
    if !walk.open.is_empty() {
        let line = events.line;
        return Err(error(file, Some(line), "is not complete GraphML: it ends inside an element"));
    }
    if !walk.graph && !matches!(walk.root.as_str(), "" | "graphml") {
        let message = format!("is not GraphML: its root is <{}>, not <graphml>", walk.root);
        return Err(error(file, Some(1), message));
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
    Key,
    /// The default of a key.
    Default,
    /// A label as yEd writes it, inside a node's datum.
    Label,
    Other,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    All,
    Node,
    Edge,
}

/// The names of data that the reader uses.
const USED: [&str; 7] =
    ["label", "Internal", "hyperedge", "serves", "LinkSpeedRaw", "capacity", "metric"];

/// The position in the document, and what was found so far.
#[derive(Default)]
struct Walk {
    open: Vec<Element>,
    /// The name of the outermost element.
    root: String,
    /// Whether there is a graph.
    graph: bool,
    /// The names of keys, by their ids.
    keys: BTreeMap<String, String>,
    /// The defaults of keys that are used, by what they are for and their names.
    defaults: BTreeMap<(Scope, String), String>,
    /// The key whose default may follow: what it is for, and its name.
    key: (Option<Scope>, String),
    /// The name of the open datum, and its text so far.
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
            Event::Text(text) if self.has_text() => {
                self.datum.1.push_str(&text.decode().map_err(|e| not_xml(e.into()))?);
            }
            Event::CData(text) if self.has_text() => {
                self.datum.1.push_str(&text.decode().map_err(|e| not_xml(e.into()))?);
            }
            Event::GeneralRef(entity) if self.has_text() => {
                let c = character(&entity).ok_or_else(|| {
                    fault("is not valid GraphML: an entity is unknown".to_owned())
                })?;
                self.datum.1.push(c);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether text belongs to the datum.
    fn has_text(&self) -> bool {
        matches!(self.open.last(), Some(Element::Data | Element::Default | Element::Label))
    }

    fn begin(&mut self, tag: &BytesStart<'_>, line: usize) -> Result<(), Fault> {
        let fault = |message: &str| Fault { line, message: message.to_owned() };
        if self.open.len() == DEEPEST {
            return Err(fault("is not GraphML of a network: elements are nested too deeply"));
        }
        if self.root.is_empty() {
            self.root = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
        }
        let attributes = attributes(tag)
            .ok_or_else(|| fault("is not valid GraphML: an attribute cannot be read"))?;
        let attribute = |name: &str| attributes.get(name).cloned();
        let element = match (tag.local_name().as_ref(), self.open.last()) {
            (b"key", _) => {
                let scope = match attribute("for").as_deref() {
                    None | Some("all") => Some(Scope::All),
                    Some("node") => Some(Scope::Node),
                    Some("edge") => Some(Scope::Edge),
                    Some(_) => None,
                };
                self.key = (scope, attribute("attr.name").unwrap_or_default());
                if let (Some(id), Some(name)) = (attribute("id"), attribute("attr.name")) {
                    self.keys.insert(id, name);
                }
                Element::Key
            }
            (b"default", Some(Element::Key)) => {
                self.datum = Default::default();
                Element::Default
            }
            (b"NodeLabel", _) if self.open.contains(&Element::Node) => {
                self.datum = Default::default();
                Element::Label
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
                self.set_defaults(Scope::Node, line)?;
                Element::Node
            }
            (b"edge", Some(Element::Graph)) => {
                let end = |name| {
                    attribute(name)
                        .ok_or_else(|| fault("an edge has no source or no target: give it both"))
                };
                let (from, to) = (end("source")?, end("target")?);
                let directed = attribute("directed").and_then(|text| truth(&text));
                self.draft.edges.push(DraftEdge {
                    from,
                    to,
                    line,
                    directed,
                    ..DraftEdge::default()
                });
                self.set_defaults(Scope::Edge, line)?;
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
        let closed = self.open.pop();
        if !matches!(closed, Some(Element::Data | Element::Default | Element::Label)) {
            return Ok(());
        }
        let (key, value) = std::mem::take(&mut self.datum);
        let value = value.trim();
        match (closed, self.open.last()) {
            (Some(Element::Default), _) => {
                if let (Some(scope), name) = &self.key
                    && USED.contains(&name.as_str())
                {
                    self.defaults.insert((*scope, name.clone()), value.to_owned());
                }
            }
            (Some(Element::Label), _) => {
                if let Some(router) = self.draft.routers.last_mut().filter(|r| r.label.is_none()) {
                    router.label = Some(value.to_owned());
                }
            }
            (_, Some(Element::Graph))
                if matches!(key.as_str(), "Network" | "label") && self.draft.name.is_empty() =>
            {
                self.draft.name = value.to_owned();
            }
            (_, Some(Element::Node)) => self.set(Scope::Node, &key, value, line)?,
            (_, Some(Element::Edge)) => self.set(Scope::Edge, &key, value, line)?,
            _ => {}
        }
        Ok(())
    }

    /// Gives the last node or edge the defaults of its data.
    fn set_defaults(&mut self, of: Scope, line: usize) -> Result<(), Fault> {
        let defaults = std::mem::take(&mut self.defaults);
        for ((scope, name), value) in &defaults {
            if [of, Scope::All].contains(scope) {
                self.set(of, name, value, line)?;
            }
        }
        self.defaults = defaults;
        Ok(())
    }

    /// Sets a datum of the last node or edge.
    fn set(&mut self, of: Scope, name: &str, value: &str, line: usize) -> Result<(), Fault> {
        let (router, edge) = (self.draft.routers.last_mut(), self.draft.edges.last_mut());
        match (of, router, edge) {
            (Scope::Node, Some(router), _) => match name {
                "label" => router.label = Some(value.to_owned()),
                "Internal" | "serves" => router.external = truth(value) == Some(false),
                "hyperedge" => router.hyperedge = truth(value) == Some(true),
                _ => {}
            },
            (Scope::Edge, _, Some(edge)) => {
                let fault = |what: &str| Fault {
                    line,
                    message: format!("{}: {what}", link_name(&edge.from, &edge.to)),
                };
                match name {
                    "LinkSpeedRaw" | "capacity" => {
                        edge.capacity = Some(rate(value).map_err(|_| fault(NO_CAPACITY))?);
                    }
                    "metric" => {
                        let metric = value.parse().ok().and_then(whole_metric);
                        edge.metric = Some(metric.ok_or_else(|| fault(NO_METRIC))?);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the attributes by their local names; `None` if one cannot be read.
pub(super) fn attributes(tag: &BytesStart<'_>) -> Option<BTreeMap<String, String>> {
    let read = tag.attributes().map(|attribute| {
        let attribute = attribute.ok()?;
        let name = String::from_utf8(attribute.key.local_name().as_ref().to_vec()).ok()?;
        Some((name, attribute.unescape_value().ok()?.into_owned()))
    });
    read.collect()
}

/// Returns the character of an entity: one of XML's five, or a numeric one.
pub(super) fn character(entity: &BytesRef<'_>) -> Option<char> {
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

    /// As networkx writes it: truths of Python, floats, and defaults of keys.
    #[test]
    fn truths_defaults_and_directions() {
        let text = "<graphml><key id=\"d0\" for=\"node\" attr.name=\"Internal\" attr.type=\"boolean\">\
                    <default>False</default></key>\
                    <key id=\"d1\" for=\"edge\" attr.name=\"capacity\" attr.type=\"double\">\
                    <default>1e9</default></key>\
                    <key id=\"d2\" for=\"edge\" attr.name=\"metric\" attr.type=\"double\"/>\
                    <key id=\"d3\" for=\"all\" attr.name=\"hyperedge\"><default>true</default></key>\
                    <graph edgedefault=\"directed\">\
                    <node id=\"0\"/>\
                    <node id=\"1\"><data key=\"d0\">True</data><data key=\"d3\">false</data></node>\
                    <node id=\"2\"><data key=\"d0\">true</data></node>\
                    <edge source=\"0\" target=\"1\"/>\
                    <edge source=\"1\" target=\"2\" directed=\"false\">\
                    <data key=\"d1\">2e9</data><data key=\"d2\">10.0</data></edge></graph></graphml>";
        let topology = parse(text).unwrap();
        let serves: Vec<_> = topology.routers().iter().map(|r| r.serves).collect();
        assert_eq!(serves, [false, true, false], "by Internal, by neither, and by hyperedge");
        let links: Vec<_> = topology
            .links()
            .iter()
            .map(|l| (l.from.0, l.to.0, l.capacity.unwrap(), l.metric))
            .collect();
        let (one, two) = (Rate::from_mbps(1000), Rate::from_mbps(2000));
        assert_eq!(links, [(0, 1, one, 1), (1, 2, two, 10), (2, 1, two, 10)]);
    }

    #[test]
    fn labels_of_yed() {
        let text = "<graphml xmlns:y=\"http://www.yworks.com/xml/graphml\">\
                    <key id=\"d6\" for=\"node\" yfiles.type=\"nodegraphics\"/><graph>\
                    <node id=\"n0\"><data key=\"d6\"><y:ShapeNode><y:NodeLabel a=\"b\">Rome\
                    <y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node></graph></graphml>";
        assert_eq!(parse(text).unwrap().routers()[0].name, "Rome");
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
                "a.graphml:6: the link from 0 to 1: a capacity is not a rate: write bits per second, at most 10^15",
            ),
            (
                "<graphml/>".to_owned(),
                "a.graphml:1: has no graph: put nodes and edges in <graphml><graph>",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected);
        }
        let error = parse("<gexf><graph1/></gexf>").unwrap_err();
        assert_eq!(error, "a.graphml:1: is not GraphML: its root is <gexf>, not <graphml>");
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
