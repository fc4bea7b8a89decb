//! What is checked in which kind of file.

use std::fmt;

use crate::comments::{self, Kind};
use crate::prose::Prose;
use crate::tree::Tree;
use crate::{columns, fragments, links, paths};

/// A rule that a finding breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A doc comment that does not begin with a sentence.
    Fragment,
    /// A line of prose that is too wide.
    Columns,
    /// A named path that does not exist.
    Path,
    /// A link whose target or anchor does not exist.
    Link,
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, relative to the top of the repository.
    pub(crate) path: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The rule that the line breaks.
    pub(crate) rule: Rule,
    /// A short description of the mistake.
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::Fragment => "fragment",
            Rule::Columns => "columns",
            Rule::Path => "path",
            Rule::Link => "link",
        };
        write!(f, "{}:{}: {rule}: {}", self.path, self.line, self.what)
    }
}

/// Checks a file by the rules for its kind; a file that holds neither comments nor Markdown has no
/// findings.
pub(crate) fn file(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let mut found = Findings { path, all: Vec::new() };
    match extension {
        "md" => markdown(tree, text, &mut found),
        "rs" => source(tree, text, true, &mut found),
        "c" | "h" => source(tree, text, false, &mut found),
        "toml" | "py" => script(tree, text, &mut found),
        _ if name == "Makefile" || text.starts_with("#!") => script(tree, text, &mut found),
        _ => {}
    }
    found.all.sort_by_key(|finding| finding.line);
    found.all
}

/// The findings of one file while it is checked.
struct Findings<'a> {
    path: &'a str,
    all: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, rule: Rule, found: Vec<(usize, String)>) {
        let path = self.path;
        self.all.extend(found.into_iter().map(|(line, what)| Finding {
            path: path.to_owned(),
            line,
            rule,
            what,
        }));
    }
}

fn markdown(tree: &Tree, text: &str, found: &mut Findings<'_>) {
    let prose = Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)));
    if !tree.is_generated(found.path) {
        found.add(Rule::Columns, columns::check(&prose, |_, line| line.to_owned()));
    }
    found.add(Rule::Path, paths::check(tree, &prose));
    found.add(Rule::Link, links::check(tree, found.path, &prose));
}

fn source(tree: &Tree, text: &str, rust: bool, found: &mut Findings<'_>) {
    let lines: Vec<&str> = text.lines().collect();
    for comment in comments::find(text) {
        let prose = Prose::new(comment.lines.iter().map(|(n, line)| (*n, line.as_str())));
        found.add(
            Rule::Columns,
            columns::check(&prose, |n, line| lines.get(n - 1).unwrap_or(&line).to_string()),
        );
        found.add(Rule::Path, paths::check(tree, &prose));
        if rust && comment.kind != Kind::Plain {
            found.add(Rule::Fragment, fragments::check(&prose).into_iter().collect());
            found.add(Rule::Link, links::check_in_source(tree, found.path, &prose));
        }
    }
}

fn script(tree: &Tree, text: &str, found: &mut Findings<'_>) {
    let comments = text.lines().enumerate().filter_map(|(i, line)| {
        let comment = line.trim_start().strip_prefix('#')?;
        (!comment.starts_with('!')).then_some((i + 1, comment))
    });
    let prose = Prose::new(comments);
    let lines: Vec<&str> = text.lines().collect();
    if !is_scenario(found.path) {
        found.add(
            Rule::Columns,
            columns::check(&prose, |n, line| lines.get(n - 1).unwrap_or(&line).to_string()),
        );
    }
    found.add(Rule::Path, paths::check(tree, &prose));
}

/// Whether a file is a scenario or a claim. Stored results carry the hash of their scenario's text,
/// comments included, so a comment that is wrapped anew would make them look out of date.
fn is_scenario(path: &str) -> bool {
    path.starts_with("experiments/") && path.ends_with(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<String> {
        let tree =
            Tree::of(&["docs/a.md", "docs/results/x.md", "docs/results/x/a.svg", "src/a.rs"]);
        file(&tree, path, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_is_reported_with_file_line_and_name() {
        let text = "//! A whole sentence about `src/gone.rs`.\n\n/// Which.\nfn a() {}\n";
        assert_eq!(
            lines_of("src/a.rs", text),
            [
                "src/a.rs:1: path: src/gone.rs does not exist",
                "src/a.rs:3: fragment: shorter than three words: \"Which.\"",
            ]
        );
    }

    #[test]
    fn generated_pages_may_have_long_lines_but_no_dead_links() {
        let text = format!("{}\n\n[a](gone.md)\n", "word ".repeat(30));
        assert_eq!(lines_of("docs/a.md", &text).len(), 2);
        assert_eq!(
            lines_of("docs/results/x.md", &text),
            ["docs/results/x.md:3: link: gone.md does not exist"]
        );
    }

    #[test]
    fn comments_of_scripts_are_prose_and_their_commands_are_not() {
        let long = "word ".repeat(30);
        let text = format!("#!/bin/bash {long}\n# {long}\necho {long}\n");
        assert_eq!(lines_of("run", &text).len(), 1);
    }

    #[test]
    fn comments_of_scenarios_may_be_wide_but_name_no_dead_path() {
        let text = format!("# {}\n# See docs/gone.md\n", "word ".repeat(30));
        assert_eq!(lines_of("a.toml", &text).len(), 2);
        assert_eq!(lines_of("experiments/a.toml", &text).len(), 1);
    }

    #[test]
    fn c_comments_need_no_sentence_but_stay_in_their_columns() {
        let text = format!("/** which */\nint a; /* {} */\n", "word ".repeat(30));
        assert_eq!(lines_of("bpf/a.c", &text).len(), 1);
    }
}
