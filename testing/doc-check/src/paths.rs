//! Paths of this repository that are named and do not exist.

use crate::links::without_targets;
use crate::prose::Prose;
use crate::tree::Tree;

/// Endings of files that are kept in the repository.
const EXTENSIONS: [&str; 10] =
    ["rs", "toml", "md", "c", "h", "py", "svg", "csv", "patch", "config"];

/// Directories of the Linux source tree, whose files comments cite.
const LINUX: [&str; 6] = ["net/", "include/", "drivers/", "tools/", "linux/", "Documentation/"];

/// The named paths that do not exist, with their lines.
pub(crate) fn check(tree: &Tree, prose: &Prose) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut add = |line: usize, path: &str| {
        let dead = (line, format!("{path} does not exist"));
        if !found.contains(&dead) {
            found.push(dead);
        }
    };
    for line in prose.lines.iter().filter(|line| line.is_code) {
        for path in named_from_top(tree, &line.text, true) {
            add(line.number, path);
        }
    }
    for paragraph in prose.plain_text() {
        for (row, line) in paragraph.text.lines().enumerate() {
            for path in named_from_top(tree, &without_targets(line), false) {
                add(paragraph.line + row, path);
            }
        }
    }
    for span in prose.code_spans() {
        let text = span.text.trim();
        for path in named_from_top(tree, text, true) {
            add(span.line, path);
        }
        if is_inner_path(tree, text) && !tree.has_ending(text) {
            add(span.line, text);
        }
    }
    found.sort();
    found
}

/// Paths in the text that start with a top-level directory and do not exist. In ordinary text only
/// names with an ending count: "docs/tests" may mean either of two words.
fn named_from_top<'a>(tree: &Tree, text: &'a str, is_code: bool) -> Vec<&'a str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "_./-*{}<>~$@".contains(c));
    let words = text.split(ends).map(|word| word.trim_end_matches(['.', '/', '-', '>']));
    words
        .filter(|word| word.split_once('/').is_some_and(|(top, _)| tree.is_top(top)))
        .filter(|word| is_code || has_extension(word))
        .filter(|word| !tree.exists(word) && !has_placeholder(word))
        .collect()
}

/// Whether a code span is the later part of a path, such as `doc-check/src/paths.rs`, or the name
/// of a Rust file.
fn is_inner_path(tree: &Tree, text: &str) -> bool {
    let is_path = text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let starts_low = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if !is_path || !starts_low || !has_extension(text) || has_placeholder(text) {
        return false;
    }
    match text.split_once('/') {
        Some((top, _)) => !tree.is_top(top) && !LINUX.iter().any(|dir| text.starts_with(dir)),
        None => text.ends_with(".rs"),
    }
}

fn has_extension(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && EXTENSIONS.contains(&end))
}

/// Names of files that are written in capitals.
const IN_CAPITALS: &[&str] =
    &["README", "CHANGELOG", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "SUMMARY", "LICENSE"];

/// Whether a component stands for others: `NAME`, `*`, `{a,b}`, `<name>`, `forebay-CRATE`.
fn has_placeholder(path: &str) -> bool {
    path.contains(['*', '{', '<', '$']) || path.contains("..") || {
        let mut words = path.split(['/', '.', '-', '_']);
        words.any(|word| {
            let capitals = word.chars().any(char::is_uppercase);
            capitals && !word.chars().any(char::is_lowercase) && !IN_CAPITALS.contains(&word)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&["core/queue/src/lib.rs", "core/queue/tests/a/b.rs", "docs/x.md"]);
        let prose = Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)));
        let named = check(&tree, &prose).into_iter();
        named.map(|(n, what)| (n, what.trim_end_matches(" does not exist").to_owned())).collect()
    }

    #[test]
    fn paths_that_exist_pass() {
        let text = "See `core/queue` and core/queue/src/lib.rs.\n`tests/a/b.rs`, `b.rs`\n\
                    ```\ncat docs/x.md docs\n```\n";
        assert_eq!(dead(text), []);
    }

    #[test]
    fn dead_paths_are_found_in_text_in_spans_and_in_code_blocks() {
        let text = "See docs/y.md, `core/gone`\nand `tests/gone.rs`, `gone.rs`.\n\
                    ```\ncat core/queue/gone\n```\n";
        let expected = [
            (1, "core/gone"),
            (1, "docs/y.md"),
            (2, "gone.rs"),
            (2, "tests/gone.rs"),
            (4, "core/queue/gone"),
        ];
        assert_eq!(dead(text), expected.map(|(n, path)| (n, path.to_owned())));
    }

    #[test]
    fn a_markdown_file_in_capitals_is_no_placeholder_and_its_directories_may_be() {
        let text = "`core/gone/README.md`, `docs/CHANGELOG.md` and `core/NAME/README.md`\n";
        let expected = ["core/gone/README.md", "docs/CHANGELOG.md"];
        assert_eq!(dead(text), expected.map(|path| (1, path.to_owned())));
    }

    #[test]
    fn a_target_with_parentheses_is_cut_out_as_a_whole() {
        let text = "[x](docs/a(b)/docs/gone.md) is a link, and docs/y.md is none\n";
        assert_eq!(dead(text), [(1, "docs/y.md".to_owned())]);
    }

    #[test]
    fn what_names_no_file_of_ours_passes() {
        let text = "docs/tests are words, `net/sched/sch_pie.c` is Linux's, `/etc/core/x.rs` and\n\
                    `~/docs/gone.md` are elsewhere, `core/NAME/src`, `core/*/x.rs` and\n\
                    `core/forebay-CRATE` are patterns, [x](docs/gone.md) is a link, and\n\
                    https://example.net/docs/gone.md is on the web too\n";
        assert_eq!(dead(text), []);
    }
}
