//! Events of an XML text, with the lines where they begin.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Reads the events of a text.
///
/// Lines are counted incrementally, since counting from the start for each element would be slow.
pub(super) struct Events<'a> {
    reader: Reader<&'a [u8]>,
    text: &'a str,
    /// The bytes whose lines are counted.
    counted: usize,
    /// The line of the end of the last event.
    pub(super) line: usize,
}

impl<'a> Events<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { reader: Reader::from_str(text), text, counted: 0, line: 1 }
    }

    /// Returns the line where the next event begins, and the event.
    pub(super) fn next(&mut self) -> (usize, quick_xml::Result<Event<'a>>) {
        let event = self.reader.read_event();
        let end = (self.reader.buffer_position() as usize).clamp(self.counted, self.text.len());
        let start = self.line;
        let passed = &self.text.as_bytes()[self.counted..end];
        self.line += passed.iter().filter(|b| **b == b'\n').count();
        self.counted = end;
        (start, event)
    }
}
