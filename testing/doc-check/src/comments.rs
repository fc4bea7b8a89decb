//! Comments of Rust and C sources.

/// The kind of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A comment that is not documentation.
    Plain,
    /// Documentation of the item that follows: `///` or `/** */`.
    Outer,
    /// Documentation of the module that it stands in: `//!` or `/*! */`.
    Inner,
}

/// A comment, or adjacent comments of the same kind, which read as one.
#[derive(Debug)]
pub(crate) struct Comment {
    /// The kind of all its lines.
    pub(crate) kind: Kind,
    /// Line numbers, counted from 1, and the text of each line without the comment's marker.
    pub(crate) lines: Vec<(usize, String)>,
}

/// Finds all comments of a source text, in order. Strings and characters are not taken for
/// comments. Line comments that follow each other are one comment, and so are doc comments with
/// only attributes between them.
pub(crate) fn find(text: &str) -> Vec<Comment> {
    let mut scanner = Scanner { text, at: 0, line: 1, code: String::new(), found: Vec::new() };
    while scanner.step() {}
    scanner.found
}

struct Scanner<'a> {
    text: &'a str,
    /// The byte that is next.
    at: usize,
    /// The line that byte is on.
    line: usize,
    /// The code since the last comment, without white space.
    code: String,
    found: Vec<Comment>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Moves past so many bytes and counts their lines.
    fn skip(&mut self, bytes: usize) {
        self.line += self.rest()[..bytes].matches('\n').count();
        self.at += bytes;
    }

    /// Moves past one token or one character; false at the end.
    fn step(&mut self) -> bool {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return false };
        if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            self.line_comment(length);
        } else if rest.starts_with("/*") {
            let length = block_length(rest);
            self.block_comment(length);
        } else if let Some(length) = string_length(rest, self.code.chars().next_back()) {
            self.code.push('"');
            self.skip(length);
        } else {
            if !c.is_whitespace() {
                self.code.push(c);
            } else if !self.code.ends_with(' ') && !self.code.is_empty() {
                self.code.push(' ');
            }
            self.skip(c.len_utf8());
        }
        true
    }

    fn line_comment(&mut self, length: usize) {
        let text = &self.rest()[..length];
        let (kind, marker) = match text {
            _ if text.starts_with("////") => (Kind::Plain, 2),
            _ if text.starts_with("///") => (Kind::Outer, 3),
            _ if text.starts_with("//!") => (Kind::Inner, 3),
            _ => (Kind::Plain, 2),
        };
        let line = vec![(self.line, text[marker..].trim_end().to_owned())];
        self.add(kind, line);
        self.skip(length);
    }

    fn block_comment(&mut self, length: usize) {
        let text = &self.rest()[..length];
        let (kind, marker) = match text {
            _ if text.starts_with("/***") || text == "/**/" => (Kind::Plain, 2),
            _ if text.starts_with("/**") => (Kind::Outer, 3),
            _ if text.starts_with("/*!") => (Kind::Inner, 3),
            _ => (Kind::Plain, 2),
        };
        let inside = &text[marker..];
        let inside = inside.strip_suffix("*/").unwrap_or(inside);
        let lines = inside.lines().enumerate().map(|(i, line)| {
            let line = line.trim_end();
            // Lines after the first may begin with a star.
            let starred = line.trim_start().strip_prefix('*').filter(|_| i > 0);
            (self.line + i, starred.unwrap_or(line).to_owned())
        });
        let mut lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            lines.push((self.line, String::new()));
        }
        self.add(kind, lines);
        self.skip(length);
    }

    fn add(&mut self, kind: Kind, lines: Vec<(usize, String)>) {
        let between = std::mem::take(&mut self.code);
        let between = between.trim();
        let attributes = between.starts_with("#[") && between.ends_with(']');
        match self.found.last_mut() {
            Some(last)
                if last.kind == kind
                    && (between.is_empty() || kind == Kind::Outer && attributes)
                    && (kind != Kind::Plain || adjacent(last, &lines)) =>
            {
                last.lines.extend(lines);
            }
            _ => self.found.push(Comment { kind, lines }),
        }
    }
}

fn adjacent(last: &Comment, lines: &[(usize, String)]) -> bool {
    match (last.lines.last(), lines.first()) {
        (Some((end, _)), Some((start, _))) => end + 1 == *start,
        _ => true,
    }
}

/// The length of a block comment at the start of the text, with the comments inside it.
fn block_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The length of a string or a character at the start of the text. `before` is the last character
/// of the code before it: `r` is the start of a raw string only if no name ends with it.
fn string_length(text: &str, before: Option<char>) -> Option<usize> {
    let named = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let prefix = text.len() - text.trim_start_matches(['b', 'c']).len();
    let prefix = if named || prefix > 1 { 0 } else { prefix };
    let body = &text[prefix..];
    if let Some(raw) = body.strip_prefix('r').filter(|_| !named) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        return Some(prefix + 1 + hashes + 1 + length);
    }
    match body.chars().next()? {
        '"' => Some(prefix + quoted_length(body, '"')),
        '\'' => {
            let mut after = body[1..].chars();
            let is_character = match (after.next(), after.next()) {
                (Some('\\'), _) | (Some(_), Some('\'')) => true,
                // A lifetime.
                _ => false,
            };
            is_character.then(|| prefix + quoted_length(body, '\''))
        }
        _ => None,
    }
}

/// The length of what stands between two quotes, with both.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, usize, String)> {
        find(text)
            .into_iter()
            .map(|c| {
                let text: Vec<_> = c.lines.iter().map(|(_, l)| l.trim()).collect();
                (c.kind, c.lines[0].0, text.join("|"))
            })
            .collect()
    }

    #[test]
    fn the_kinds_are_told_by_their_markers() {
        let text = "//! m\n\n// p\n/// o\nfn a() {}\n//// q\n/* r */\n/** s */\n/*! t */\n/**/\n";
        let kinds: Vec<_> = found(text).into_iter().map(|(kind, line, _)| (kind, line)).collect();
        use Kind::{Inner, Outer, Plain};
        assert_eq!(
            kinds,
            [(Inner, 1), (Plain, 3), (Outer, 4), (Plain, 6), (Outer, 8), (Inner, 9), (Plain, 10)]
        );
    }

    #[test]
    fn doc_lines_are_one_comment_across_attributes_and_two_across_items() {
        let text = "/// a\n/// b\n#[must_use]\n/// c\nfn x();\n/// d\nfn y();\n";
        assert_eq!(
            found(text),
            [(Kind::Outer, 1, "a|b|c".to_owned()), (Kind::Outer, 6, "d".to_owned())]
        );
    }

    #[test]
    fn a_comment_behind_code_stands_alone() {
        let text = "let a = 1; // one\nlet b = 2; // two\n// three\n";
        assert_eq!(found(text).len(), 2);
        assert_eq!(found("let a = 1; // one\n\n// three\n").len(), 2);
    }

    #[test]
    fn strings_and_characters_are_not_comments() {
        for code in [
            r#"let a = "http://x"; "#,
            r##"let a = r#"// " /* "#; "##,
            r#"let a = b"\"//"; "#,
            r#"let a = ['"', '\'', '/', b'"']; "#,
            "fn a<'a>(x: &'a str) {} ",
            r##"let r#type = br"\"; "##,
            r#"let bar = "//"; "#,
        ] {
            assert_eq!(found(code), [], "{code}");
            let text = format!("{code}// yes");
            assert_eq!(found(&text), [(Kind::Plain, 1, "yes".to_owned())], "{code}");
        }
    }

    #[test]
    fn block_comments_nest_and_lose_their_stars() {
        let text = "/**\n * A /* b */ c\n * d\n */\nfn a() {}\n";
        assert_eq!(found(text), [(Kind::Outer, 1, "|A /* b */ c|d|".to_owned())]);
    }
}
