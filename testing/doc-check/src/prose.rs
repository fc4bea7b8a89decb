//! Markdown, as far as the rules need it: lines of text and lines of code, and code spans.

/// A piece of Markdown: a whole file or one comment.
#[derive(Debug)]
pub(crate) struct Prose {
    /// All lines in order.
    pub(crate) lines: Vec<Line>,
}

/// A line of Markdown.
#[derive(Debug)]
pub(crate) struct Line {
    /// The line's number in its file, counted from 1.
    pub(crate) number: usize,
    /// The text without the marker of the comment that it may stand in.
    pub(crate) text: String,
    /// Whether the line belongs to a code block, fenced (with its fences) or indented.
    pub(crate) is_code: bool,
}

/// A part of the text with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The line that the part begins on.
    pub(crate) line: usize,
    /// The text of the part, without delimiters.
    pub(crate) text: String,
}

impl Prose {
    /// Takes numbered lines and marks those of code blocks.
    pub(crate) fn new<'a>(lines: impl IntoIterator<Item = (usize, &'a str)>) -> Self {
        let mut fence: Option<(char, usize)> = None;
        let mut indented = Indented::default();
        let lines = lines
            .into_iter()
            .map(|(number, text)| {
                let mark = fence_of(text);
                let is_code = match (fence, mark) {
                    (None, Some((c, n, _))) => {
                        fence = Some((c, n));
                        true
                    }
                    (Some((open, least)), Some((c, n, bare))) => {
                        if open == c && n >= least && bare {
                            fence = None;
                        }
                        true
                    }
                    (Some(_), None) => true,
                    (None, None) => indented.is_code(text),
                };
                Line { number, text: text.to_owned(), is_code }
            })
            .collect();
        Self { lines }
    }

    /// Text outside of code blocks, as paragraphs: lines between blank lines and code blocks.
    pub(crate) fn paragraphs(&self) -> impl Iterator<Item = &[Line]> {
        self.lines
            .split(|line| line.is_code || line.text.trim().is_empty())
            .filter(|lines| !lines.is_empty())
    }

    /// All code spans of the text outside of code blocks.
    pub(crate) fn code_spans(&self) -> Vec<Span> {
        self.paragraphs().flat_map(|lines| split(lines).spans).collect()
    }

    /// Text outside of code blocks and of code spans, a paragraph at a time.
    pub(crate) fn plain_text(&self) -> Vec<Span> {
        self.paragraphs()
            .map(|lines| Span { line: lines[0].number, text: split(lines).plain })
            .collect()
    }
}

/// Recognises indented code blocks, line by line.
#[derive(Default)]
struct Indented {
    /// The indentation of the first line, which is 1 in most comments.
    base: Option<usize>,
    /// Whether the last line was blank or code, so that code may follow.
    may_follow: bool,
    /// Whether the last text belongs to a list, whose items may be indented as far as code.
    in_list: bool,
}

impl Indented {
    fn is_code(&mut self, text: &str) -> bool {
        let inside = text.trim_start();
        if inside.is_empty() {
            self.may_follow = true;
            return false;
        }
        let indentation = text.len() - inside.len();
        let base = *self.base.get_or_insert(indentation);
        let code = self.may_follow && !self.in_list && indentation >= base + 4;
        self.may_follow = code;
        let item = inside.starts_with(['-', '*', '+']) || inside.starts_with(char::is_numeric);
        self.in_list = item && !code || self.in_list && indentation > base;
        code
    }
}

/// The character and the length of a fence, and whether nothing follows it.
fn fence_of(text: &str) -> Option<(char, usize, bool)> {
    let text = text.trim_start();
    let c = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|&next| next == c).count();
    let rest = &text[length..];
    // Backticks after the fence make it a code span that begins with three of them.
    (length >= 3 && !rest.contains('`')).then(|| (c, length, rest.trim().is_empty()))
}

/// A paragraph that was taken apart.
struct Split {
    spans: Vec<Span>,
    /// The paragraph with each code span replaced by as many placeholders.
    plain: String,
}

/// What stands in place of a character of a code span: neither a letter nor a delimiter.
const HIDDEN: char = '\u{1}';

fn split(lines: &[Line]) -> Split {
    let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let mut spans = Vec::new();
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut row = 0;
    while let Some(at) = rest.find('`') {
        plain.push_str(&rest[..at]);
        row += newlines(&rest[..at]);
        rest = &rest[at..];
        let length = rest.len() - rest.trim_start_matches('`').len();
        let Some(end) = closing(&rest[length..], length) else {
            plain.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        };
        let inside = &rest[length..length + end];
        spans.push(Span { line: lines[row].number, text: inside.replace('\n', " ") });
        let whole = &rest[..end + 2 * length];
        plain.extend(whole.chars().map(|c| if c == '\n' { c } else { HIDDEN }));
        row += newlines(whole);
        rest = &rest[whole.len()..];
    }
    plain.push_str(rest);
    Split { spans, plain }
}

/// Where a run of exactly `length` backticks begins.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find('`') {
        let start = from + at;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == length {
            return Some(start);
        }
        from = start + run;
    }
    None
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(text: &str) -> Prose {
        Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)))
    }

    #[test]
    fn a_fence_ends_at_one_of_its_kind_and_length() {
        let prose = prose("a\n````sh\n```\n~~~\n````\nb");
        let code: Vec<bool> = prose.lines.iter().map(|line| line.is_code).collect();
        assert_eq!(code, [false, true, true, true, true, false]);
    }

    #[test]
    fn indented_text_after_a_blank_line_is_code_outside_of_lists() {
        let prose = prose("a\n    b\n\n    c\n    d\n\ne\n- f\n\n    g\n\nh\n\n    i");
        let code = prose.lines.iter().filter(|line| line.is_code);
        let code: Vec<&str> = code.map(|line| line.text.trim()).collect();
        assert_eq!(code, ["c", "d", "i"]);
    }

    #[test]
    fn a_line_that_begins_with_a_code_span_is_no_fence() {
        assert!(prose("```a``` is a span").lines.iter().all(|line| !line.is_code));
    }

    #[test]
    fn code_spans_may_wrap_and_keep_their_line() {
        let spans = prose("one `a` and\n``b ` c`` and `d\ne` end\n\n`open\n\nclosed`").code_spans();
        let spans: Vec<_> = spans.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(spans, [(1, "a"), (2, "b ` c"), (2, "d e")]);
    }

    #[test]
    fn plain_text_has_no_code() {
        let text = prose("see `crates/a`\nhere\n```\ncode\n```\nend").plain_text();
        assert_eq!(text.len(), 2);
        assert!(text[0].text.starts_with("see \u{1}") && text[0].text.ends_with("\nhere"));
        assert_eq!((text[1].line, text[1].text.as_str()), (6, "end"));
    }
}
