//! The XML format of SNDlib.

use quick_xml::events::{BytesStart, Event};

use super::{MAX_DEMANDS, MAX_EDGES, MAX_ROUTERS, Name, SndDemand, SndFile, SndLink};
use super::{number, room};
use crate::input::graphml::{attributes, character};
use crate::input::xml::Events;
use crate::topology::Fault;

/// The deepest nesting of elements; SNDlib has seven levels.
const DEEPEST: usize = 64;
/// The longest text of an element that is used, in bytes.
const MAX_TEXT: usize = 4096;

/// Reads a text of the XML format.
pub(super) fn read(text: &str) -> Result<SndFile, Fault> {
    let mut walk = Walk { open: Vec::new(), text: String::new(), file: SndFile::new() };
    let mut events = Events::of(text);
    let mut root = false;
    loop {
        let (start, event) = events.next();
        let event = event.map_err(|e| fault(events.line, format!("is not valid XML: {e}")))?;
        if let Event::Start(tag) | Event::Empty(tag) = &event
            && !std::mem::replace(&mut root, true)
            && tag.local_name().as_ref() != b"network"
        {
            let root = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
            let message = format!("is not SNDlib's XML: its root is <{root}>, not <network>");
            return Err(fault(start, message));
        }
        match event {
            Event::Eof => break,
            event => walk.take(event, start)?,
        }
    }
    let line = events.line;
    match (root, walk.open.is_empty()) {
        (false, _) => Err(fault(line, "is neither SNDlib's XML nor its native format")),
        (true, false) => Err(fault(line, "is not complete XML: it ends inside an element")),
        (true, true) => Ok(walk.file),
    }
}

fn fault(line: usize, message: impl Into<String>) -> Fault {
    Fault { line, message: message.into() }
}

/// A node in the file that has not been read yet.
fn unread(line: usize) -> Name {
    Name { text: String::new(), line }
}

struct Walk {
    /// The local names of the open elements.
    open: Vec<String>,
    /// The text of the innermost element so far.
    text: String,
    file: SndFile,
}

impl Walk {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        let not_xml = |e: quick_xml::Error| fault(line, format!("is not valid XML: {e}"));
        match event {
            Event::DocType(_) => {
                return Err(fault(line, "has a document type, which is not supported: remove it"));
            }
            Event::Start(tag) => self.begin(&tag, line)?,
            Event::Empty(tag) => {
                self.begin(&tag, line)?;
                self.end(line)?;
            }
            Event::End(_) => self.end(line)?,
            Event::Text(text) => self.push(&text.decode().map_err(|e| not_xml(e.into()))?),
            Event::CData(text) => self.push(&text.decode().map_err(|e| not_xml(e.into()))?),
            Event::GeneralRef(entity) => {
                let c = character(&entity)
                    .ok_or_else(|| fault(line, "is not valid XML: an entity is unknown"))?;
                self.push(c.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, text: &str) {
        if self.text.len() + text.len() <= MAX_TEXT {
            self.text.push_str(text);
        }
    }

    fn begin(&mut self, tag: &BytesStart<'_>, line: usize) -> Result<(), Fault> {
        if self.open.len() == DEEPEST {
            return Err(fault(line, "is not SNDlib's XML: elements are nested too deeply"));
        }
        let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
        let inside = self.open.last().map(String::as_str);
        let (from, to) = (unread(line), unread(line));
        match (inside, name.as_str()) {
            (Some("nodes"), "node") => {
                room(self.file.nodes.len(), MAX_ROUTERS, "nodes", line)?;
                let id = attributes(tag).and_then(|all| all.get("id").cloned());
                let text = id.ok_or_else(|| fault(line, "a node has no id: give it one"))?;
                self.file.nodes.push(Name { text, line });
            }
            (Some("links"), "link") => {
                room(self.file.links.len(), MAX_EDGES, "links", line)?;
                let (installed, cost, module) = (0.0, 0.0, None);
                self.file.links.push(SndLink { from, to, installed, cost, module, line });
            }
            (Some("demands"), "demand") => {
                room(self.file.demands.len(), MAX_DEMANDS, "demands", line)?;
                let (routing_unit, value) = (1.0, f64::NAN);
                self.file.demands.push(SndDemand { from, to, routing_unit, value, line });
            }
            _ => {}
        }
        self.open.push(name);
        self.text.clear();
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), Fault> {
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let closed = self.open.pop().unwrap_or_default();
        let parent = self.open.last().map(String::as_str).unwrap_or_default();
        let name = || Name { text: text.to_owned(), line };
        if (parent, closed.as_str()) == ("meta", "unit") {
            return self.file.set_unit(text, line);
        }
        if (parent, closed.as_str()) == ("links", "link")
            && let Some(link) = self.file.links.last()
        {
            return complete("link", &link.from, &link.to);
        }
        if (parent, closed.as_str()) == ("demands", "demand")
            && let Some(demand) = self.file.demands.last()
        {
            if demand.value.is_nan() {
                return Err(fault(demand.line, "a demand has no <demandValue>: give it one"));
            }
            return complete("demand", &demand.from, &demand.to);
        }
        if self.open.iter().any(|name| name == "demands")
            && let Some(demand) = self.file.demands.last_mut()
        {
            match (parent, closed.as_str()) {
                ("demand", "source") => demand.from = name(),
                ("demand", "target") => demand.to = name(),
                ("demand", "routingUnit") => {
                    demand.routing_unit = number(text, "a routing unit", line)?;
                }
                ("demand", "demandValue") => demand.value = number(text, "a demand", line)?,
                _ => {}
            }
            return Ok(());
        }
        if self.open.iter().any(|name| name == "links")
            && let Some(link) = self.file.links.last_mut()
        {
            match (parent, closed.as_str()) {
                ("link", "source") => link.from = name(),
                ("link", "target") => link.to = name(),
                ("link", "routingCost") => link.cost = number(text, "a routing cost", line)?,
                ("preInstalledModule", "capacity") => {
                    link.installed = number(text, "a capacity", line)?;
                }
                ("addModule", "capacity") => {
                    let capacity = number(text, "a capacity", line)?;
                    link.module = Some(link.module.unwrap_or(0.0).max(capacity));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Checks that a link or demand has both ends.
fn complete(what: &str, from: &Name, to: &Name) -> Result<(), Fault> {
    if from.text.is_empty() || to.text.is_empty() {
        let line = from.line;
        return Err(fault(line, format!("a {what} has no <source> or no <target>: give it both")));
    }
    Ok(())
}
