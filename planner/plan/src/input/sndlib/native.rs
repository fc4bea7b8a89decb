//! The native format of SNDlib: sections in parentheses, with words between blanks.

use super::{MAX_DEMANDS, MAX_EDGES, MAX_ROUTERS, Name, SndDemand, SndFile, SndLink};
use super::{number, room};
use crate::topology::Fault;

/// The first words of a file.
const TITLE: &str = "?SNDlib native format";
/// The deepest nesting that is skipped; admissible paths have three levels.
const DEEPEST: usize = 16;

/// Whether the first line is that of the native format.
pub(super) fn is_native(text: &str) -> bool {
    text.trim_start().starts_with(TITLE)
}

/// Reads a text of the native format.
pub(super) fn read(text: &str) -> Result<SndFile, Fault> {
    let mut tokens = Tokens { rest: text, line: 1 };
    let title = tokens.title();
    if title.contains("type:") && !title.contains("type: network") {
        let message = format!("{title:?} is not a network: give a file of `type: network`");
        return Err(Fault { line: tokens.line, message });
    }
    let mut file = SndFile::new();
    while let Some(section) = tokens.next() {
        match section {
            "NODES" => nodes(&mut tokens, &mut file)?,
            "LINKS" => links(&mut tokens, &mut file)?,
            "DEMANDS" => demands(&mut tokens, &mut file)?,
            "META" => meta(&mut tokens, &mut file)?,
            "(" | ")" => return tokens.fault(section, "the name of a section, such as NODES"),
            _ => tokens.skip()?,
        }
    }
    Ok(file)
}

/// Words and parentheses.
struct Tokens<'a> {
    rest: &'a str,
    /// The line of the last token.
    line: usize,
}

impl<'a> Tokens<'a> {
    /// Takes the first line that is not blank.
    fn title(&mut self) -> &'a str {
        self.blanks();
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let (title, rest) = self.rest.split_at(end);
        self.rest = rest;
        title.trim()
    }

    /// Skips blanks and comments.
    fn blanks(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            let (blanks, rest) = self.rest.split_at(blank);
            self.line += blanks.bytes().filter(|b| *b == b'\n').count();
            self.rest = rest;
            if !self.rest.starts_with('#') {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        self.blanks();
        let parenthesis = |c: char| matches!(c, '(' | ')');
        let length = match self.rest.chars().next()? {
            c if parenthesis(c) => 1,
            _ => self
                .rest
                .find(|c: char| parenthesis(c) || c.is_whitespace())
                .unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }

    /// Says what was expected instead of a token; an empty one is the end of the file.
    fn fault<T>(&self, found: &str, expected: &str) -> Result<T, Fault> {
        let found = match found {
            "" => "the file ends".to_owned(),
            other => format!("{other:?} is here"),
        };
        Err(Fault { line: self.line, message: format!("{found} instead of {expected}") })
    }

    /// Takes a parenthesis.
    fn expect(&mut self, parenthesis: &str, place: &str) -> Result<(), Fault> {
        match self.next().unwrap_or_default() {
            found if found == parenthesis => Ok(()),
            found => self.fault(found, &format!("`{parenthesis}` {place}")),
        }
    }

    /// Takes a word, which is no parenthesis.
    fn word(&mut self, what: &str) -> Result<&'a str, Fault> {
        match self.next().unwrap_or_default() {
            found @ ("" | "(" | ")") => self.fault(found, what),
            word => Ok(word),
        }
    }

    fn name(&mut self, what: &str) -> Result<Name, Fault> {
        let text = self.word(what)?.to_owned();
        Ok(Name { text, line: self.line })
    }

    fn number(&mut self, what: &str) -> Result<f64, Fault> {
        let word = self.word(what)?;
        number(word, what, self.line)
    }

    /// Takes the id of the next item of a section; `None` at its end.
    fn id(&mut self, what: &str) -> Result<Option<Name>, Fault> {
        match self.next().unwrap_or_default() {
            ")" => Ok(None),
            found @ ("" | "(") => self.fault(found, &format!("{what} or `)`")),
            word => Ok(Some(Name { text: word.to_owned(), line: self.line })),
        }
    }

    /// Takes two nodes in parentheses.
    fn ends(&mut self) -> Result<(Name, Name), Fault> {
        self.expect("(", "before the source")?;
        let ends = (self.name("the source")?, self.name("the target")?);
        self.expect(")", "after the target")?;
        Ok(ends)
    }

    /// Skips a section in parentheses.
    fn skip(&mut self) -> Result<(), Fault> {
        self.expect("(", "after the name of a section")?;
        let mut depth = 1;
        while depth > 0 {
            match self.next().unwrap_or_default() {
                "" => return self.fault("", "`)` at the end of a section"),
                "(" if depth == DEEPEST => {
                    return self.fault("(", "`)`, since sections are nested too deeply");
                }
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads nodes: `ID`, or `ID ( LONGITUDE LATITUDE )`.
fn nodes(tokens: &mut Tokens<'_>, file: &mut SndFile) -> Result<(), Fault> {
    tokens.expect("(", "after NODES")?;
    while let Some(node) = tokens.id("the id of a node")? {
        room(file.nodes.len(), MAX_ROUTERS, "nodes", node.line)?;
        file.nodes.push(node);
        tokens.blanks();
        if tokens.rest.starts_with('(') {
            tokens.skip()?;
        }
    }
    Ok(())
}

/// Reads links: `ID ( SOURCE TARGET ) PRE_INSTALLED_CAPACITY PRE_INSTALLED_COST ROUTING_COST
/// SETUP_COST ( MODULE_CAPACITY MODULE_COST ... )`.
fn links(tokens: &mut Tokens<'_>, file: &mut SndFile) -> Result<(), Fault> {
    tokens.expect("(", "after LINKS")?;
    while let Some(id) = tokens.id("the id of a link")? {
        room(file.links.len(), MAX_EDGES, "links", id.line)?;
        let (from, to) = tokens.ends()?;
        let installed = tokens.number("the installed capacity")?;
        tokens.number("the cost of the installed capacity")?;
        let cost = tokens.number("the routing cost")?;
        tokens.number("the setup cost")?;
        tokens.expect("(", "before the modules")?;
        let mut module: Option<f64> = None;
        while let Some(capacity) = tokens.id("the capacity of a module")? {
            let capacity = number(&capacity.text, "the capacity of a module", capacity.line)?;
            module = Some(module.unwrap_or(0.0).max(capacity));
            tokens.number("the cost of a module")?;
        }
        file.links.push(SndLink { from, to, installed, cost, module, line: id.line });
    }
    Ok(())
}

/// Reads demands: `ID ( SOURCE TARGET ) ROUTING_UNIT VALUE MAX_PATH_LENGTH`.
fn demands(tokens: &mut Tokens<'_>, file: &mut SndFile) -> Result<(), Fault> {
    tokens.expect("(", "after DEMANDS")?;
    while let Some(id) = tokens.id("the id of a demand")? {
        room(file.demands.len(), MAX_DEMANDS, "demands", id.line)?;
        let (from, to) = tokens.ends()?;
        let routing_unit = tokens.number("the routing unit")?;
        let value = tokens.number("the value of the demand")?;
        tokens.word("the longest path, or UNLIMITED")?;
        file.demands.push(SndDemand { from, to, routing_unit, value, line: id.line });
    }
    Ok(())
}

/// Reads what the file says of itself: `KEY = VALUE`. Only the unit counts.
fn meta(tokens: &mut Tokens<'_>, file: &mut SndFile) -> Result<(), Fault> {
    tokens.expect("(", "after META")?;
    // Values of other keys may have several words.
    let mut last = ["", ""];
    while let Some(word) = tokens.id("a key of META")? {
        if last == ["unit", "="] {
            file.set_unit(&word.text, word.line)?;
        }
        last = match (last[1], word.text.as_str()) {
            (_, "unit") => ["", "unit"],
            ("unit", "=") => ["unit", "="],
            _ => ["", ""],
        };
    }
    Ok(())
}
