//! Text of others that is shown on a terminal or written to a log.
//!
//! A name in a file, an answer of another process and a message from the network may have control
//! characters: escape sequences that change a terminal, or a line feed that begins a line of a log
//! which nobody wrote. [`escaped`] and [`Escaper`] are the one place where they become visible
//! text, in the form that JSON has for them too: `\u001b`, `\n`.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a terminal or a reader may act on a character instead of showing it.
///
/// These are the control characters of Unicode (C0, DEL and C1), the separators of lines and
/// paragraphs, and the characters that change the direction of text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

/// Returns `text` as one line without control characters.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, false)
}

/// Returns `text` without control characters except the ends of lines and tabulators.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, true)
}

fn escape(text: &str, keeps_lines: bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_escaped(c, keeps_lines)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    // Writing to a string cannot fail.
    let _ = write_escaped(&mut out, text, keeps_lines);
    Cow::Owned(out)
}

fn is_escaped(c: char, keeps_lines: bool) -> bool {
    is_control(c) && !(keeps_lines && matches!(c, '\n' | '\t'))
}

fn write_escaped(out: &mut impl Write, text: &str, keeps_lines: bool) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(|c| is_escaped(c, keeps_lines)) {
        out.write_str(&rest[..at])?;
        let mut after = rest[at..].chars();
        match after.next() {
            Some('\n') => out.write_str("\\n")?,
            Some('\r') => out.write_str("\\r")?,
            Some('\t') => out.write_str("\\t")?,
            Some(c) => write!(out, "\\u{:04x}", u32::from(c))?,
            None => {}
        }
        rest = after.as_str();
    }
    out.write_str(rest)
}

/// A writer that passes text on as [`escaped`] returns it.
#[derive(Debug)]
pub struct Escaper<W>(pub W);

impl<W: Write> Write for Escaper<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(&mut self.0, text, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_control_characters_stays_as_it_is() {
        for text in ["", "branch \"a\\b\"", "Zürich → 東京"] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert!(matches!(escaped_lines("one\n\ttwo\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_a_terminal_acts_on_becomes_visible() {
        for (text, shown) in [
            ("\x1b[2Ja\x1b]0;title\x07", "\\u001b[2Ja\\u001b]0;title\\u0007"),
            ("a\nWARN b\r\t", "a\\nWARN b\\r\\t"),
            ("\0\x7f\u{9b}31m", "\\u0000\\u007f\\u009b31m"),
            ("\u{202e}cba\u{2069}\u{2028}", "\\u202ecba\\u2069\\u2028"),
        ] {
            assert_eq!(escaped(text), shown);
            assert!(!escaped(text).chars().any(is_control));
            let mut written = String::new();
            write!(Escaper(&mut written), "{text}").unwrap();
            assert_eq!(written, shown);
        }
        assert_eq!(escaped_lines("a\x1b\r\n\tb"), "a\\u001b\\r\n\tb");
    }

    /// JSON has the same form, so that a text of JSON is the same value afterwards.
    #[test]
    fn json_means_the_same_after_its_control_characters_are_escaped() {
        let json = "\"a\u{9b}b\u{202e}\"";
        assert_eq!(escaped(json), "\"a\\u009bb\\u202e\"");
    }
}
