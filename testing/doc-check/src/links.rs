//! Links that lead nowhere.

use std::collections::HashMap;

use crate::prose::Prose;
use crate::tree::Tree;

/// The relative links of a Markdown file whose target or anchor does not exist.
pub(crate) fn check(tree: &Tree, path: &str, prose: &Prose) -> Vec<(usize, String)> {
    let path = tree.page_of(path);
    let own = anchors(prose);
    let found = targets(prose).into_iter().filter_map(|(line, target)| {
        let what = mistake(tree, path, &own, &target)?;
        Some((line, what))
    });
    found.collect()
}

/// The links of a doc comment to files of the repository that do not exist. Links to items are
/// rustdoc's to check.
pub(crate) fn check_in_source(tree: &Tree, path: &str, prose: &Prose) -> Vec<(usize, String)> {
    let found = targets(prose).into_iter().filter_map(|(line, target)| {
        let file = target.split('#').next().unwrap_or_default();
        if is_external(&target) || !file.ends_with(".md") {
            return None;
        }
        let there = tree.exists(file) || resolve(path, file).is_some_and(|to| tree.exists(&to));
        (!there).then(|| (line, format!("{file} does not exist")))
    });
    found.collect()
}

fn mistake(tree: &Tree, path: &str, own: &[String], target: &str) -> Option<String> {
    if is_external(target) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() {
        let there = anchor.is_empty() || own.iter().any(|a| a == anchor);
        return (!there).then(|| format!("#{anchor} is no heading of this page"));
    }
    let Some(to) = resolve(path, file).filter(|to| tree.exists(to)) else {
        return Some(format!("{file} does not exist"));
    };
    if anchor.is_empty() || !to.ends_with(".md") {
        return None;
    }
    let text = tree.read(&to).ok().flatten()?;
    let page = Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)));
    let there = anchors(&page).iter().any(|a| a == anchor);
    (!there).then(|| format!("#{anchor} is no heading of {to}"))
}

/// Whether a target is an address of its own, with a scheme.
fn is_external(target: &str) -> bool {
    target.split(['/', '#', '?']).next().is_some_and(|start| start.contains(':'))
}

/// The path that a relative target names, from the directory of the file it stands in; none if it
/// leaves the repository.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of all links, images and definitions of links, with their lines.
fn targets(prose: &Prose) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for paragraph in prose.plain_text() {
        let text = &paragraph.text;
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            let Some(length) = target_length(rest) else { continue };
            let target = rest[..length].split_whitespace().next().unwrap_or_default();
            let line = paragraph.line + text[..at].matches('\n').count();
            found.push((line, target.trim_matches(['<', '>']).to_owned()));
        }
        for (row, line) in text.lines().enumerate() {
            let definition = line.trim_start().strip_prefix('[').and_then(|l| l.split_once("]: "));
            if let Some((_, target)) = definition {
                let target = target.split_whitespace().next().unwrap_or_default();
                found.push((paragraph.line + row, target.trim_matches(['<', '>']).to_owned()));
            }
        }
    }
    found.sort();
    found
}

/// The text without the targets of its links; the parentheses around them stay. A target that does
/// not end in the text stays too.
pub(crate) fn without_targets(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        kept.push_str(&rest[..at + 2]);
        rest = &rest[at + 2..];
        rest = &rest[target_length(rest).unwrap_or(0)..];
    }
    kept.push_str(rest);
    kept
}

/// The length of a link's target, which ends before the closing parenthesis of its own.
fn target_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The anchors of a page's headings, as GitHub and mdBook make them, and those written as HTML.
fn anchors(prose: &Prose) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut all = Vec::new();
    for line in prose.lines.iter().filter(|line| !line.is_code) {
        let text = line.text.trim_start();
        let level = text.len() - text.trim_start_matches('#').len();
        if (1..=6).contains(&level) && text[level..].starts_with(' ') {
            let anchor = anchor(text[level..].trim());
            let times = seen.entry(anchor.clone()).or_default();
            all.push(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
            *times += 1;
        }
        for mark in [" id=\"", " name=\""] {
            all.extend(
                text.split(mark).skip(1).filter_map(|t| t.split('"').next()).map(str::to_owned),
            );
        }
    }
    all
}

/// The anchor of a heading: lower case, spaces as hyphens, without punctuation and targets.
fn anchor(heading: &str) -> String {
    without_targets(heading)
        .chars()
        .flat_map(char::to_lowercase)
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c => c.is_alphanumeric().then_some(c),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(text: &str) -> Prose {
        Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)))
    }

    fn dead(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&["README.md", "docs/src/a.md", "docs/src/b.md", "docs/queue (1).svg"])
            .with_text(
                "docs/src/b.md",
                "# One's `two`\n\n## Same\n\n## Same\n<a id=\"here\"></a>\n",
            );
        check(&tree, "docs/src/a.md", &prose(text))
    }

    #[test]
    fn links_to_files_directories_and_headings_pass() {
        let text = "# Top of\n[a](b.md) [b](../../README.md) [c](..) [d](#top-of) [e](b.md#ones-two)\n\
                    [f](b.md#same-1) [g](https://x.y/gone.md) [h](mailto:a@b) ![i](<../queue (1).svg>)\n\
                    [j](b.md#here) [k]: b.md `[l](gone.md)`\n```\n[m](gone.md)\n```\n";
        let dead = dead(text);
        // The image's name has a blank, which only angle brackets allow.
        assert_eq!(dead.len(), 1, "{dead:?}");
        assert_eq!(dead[0].0, 3);
    }

    #[test]
    fn dead_links_are_found_on_their_lines() {
        let text = "[a\nb](gone.md)\n[c](b.md#gone) [d](#gone)\n\n[e]: gone.svg\n[f](../../../x)\n";
        assert_eq!(
            dead(text),
            [
                (2, "gone.md does not exist".to_owned()),
                (3, "#gone is no heading of this page".to_owned()),
                (3, "#gone is no heading of docs/src/b.md".to_owned()),
                (5, "gone.svg does not exist".to_owned()),
                (6, "../../../x does not exist".to_owned()),
            ]
        );
    }

    #[test]
    fn links_of_doc_comments_may_start_at_the_top_or_at_the_file() {
        let tree = Tree::of(&["docs/a.md", "crates/x/src/lib.rs", "crates/x/README.md"]);
        let text = "[a](docs/a.md) [b](../README.md) [c](crate::Item) [d](docs/gone.md#x)";
        let dead = check_in_source(&tree, "crates/x/src/lib.rs", &prose(text));
        assert_eq!(dead, [(1, "docs/gone.md does not exist".to_owned())]);
    }

    #[test]
    fn anchors_are_made_as_on_github() {
        assert_eq!(anchor("What is there, and what is *not*"), "what-is-there-and-what-is-not");
        assert_eq!(anchor("[A `b_c`](d.md) - e"), "a-b_c---e");
        assert_eq!(anchor("Größe"), "größe");
    }
}
