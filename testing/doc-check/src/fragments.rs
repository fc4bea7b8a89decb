//! Doc comments that do not begin with a whole sentence.

use crate::prose::{Line, Prose};

/// Fewest words of a first paragraph.
const FEWEST_WORDS: usize = 3;

/// The line and the mistake of a doc comment whose first paragraph is a fragment.
pub(crate) fn check(prose: &Prose) -> Option<(usize, String)> {
    let first = prose.lines.iter().position(|line| !line.text.trim().is_empty());
    let Some(first) = first else {
        return prose.lines.first().map(|line| (line.number, "empty doc comment".to_owned()));
    };
    let line = prose.lines[first].number;
    let text = first_paragraph(&prose.lines[first..]);
    if text.is_empty() {
        return Some((line, "begins with a code block, not with a sentence".to_owned()));
    }
    let mistake = if starts_low(&text) {
        "starts with a lower-case word"
    } else if text.ends_with(',') {
        "ends with a comma"
    } else if words(&text) < FEWEST_WORDS {
        "shorter than three words"
    } else {
        return None;
    };
    Some((line, format!("{mistake}: \"{}\"", shortened(&text))))
}

/// The text up to the first blank line, code block, list, table or heading.
fn first_paragraph(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let words = line.text.trim();
        if line.is_code || words.is_empty() || !text.is_empty() && starts_block(words) {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(words.trim_start_matches('#').trim_start());
        if words.starts_with('#') {
            break;
        }
    }
    text
}

fn starts_block(text: &str) -> bool {
    // Only a list that starts with 1 can interrupt a paragraph: "1514. " is the end of a sentence.
    ["- ", "* ", "+ ", "1. ", "|", "# ", "## "].iter().any(|mark| text.starts_with(mark))
}

/// Whether the first word is an ordinary word in lower case. A code span is not, nor is a name such
/// as `fq_codel` or `eBPF` without its backticks.
fn starts_low(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let word = word.trim_start_matches(['*', '_', '(', '[', '"', '\'']);
    let word = word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '`');
    word.chars().next().is_some_and(char::is_lowercase)
        && word.chars().all(|c| c.is_lowercase() || matches!(c, '-' | '\'' | '’'))
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

fn shortened(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    if text.chars().count() <= MAX_SHOWN {
        return text.to_owned();
    }
    text.chars().take(MAX_SHOWN - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> Option<String> {
        let prose = Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)));
        check(&prose).map(|(_, what)| what.split(':').next().unwrap_or_default().to_owned())
    }

    #[test]
    fn whole_sentences_pass() {
        for text in [
            " Bytes in the queue.",
            " `fq_codel` has flows.",
            " fq_codel has flows.",
            " eBPF has maps.",
            " 100 ticks a second.",
            " The rate that the controller\n set, in bits per second.",
            " # A heading of words",
            " Codes of the header:\n - 1, zero,\n - 2, one,",
            " \n The first line may be empty.",
            " The size of a full frame,\n 1514. It is in bytes.",
        ] {
            assert_eq!(mistake(text), None, "{text}");
        }
    }

    #[test]
    fn fragments_are_found() {
        for (text, what) in [
            (" which have no name", "starts with a lower-case word"),
            (" tc's tree of queues.", "starts with a lower-case word"),
            (" *and* what it was.", "starts with a lower-case word"),
            (" The latest one,", "ends with a comma"),
            (" The latest of all,\n or the first of all,\n\n More.", "ends with a comma"),
            (" Its name.", "shorter than three words"),
            (" The - rate.", "shorter than three words"),
            (" # Errors\n\n If the file is gone.", "shorter than three words"),
            (" Flows:\n - one\n - two and three", "shorter than three words"),
            ("", "empty doc comment"),
            (" ```\n code\n ```", "begins with a code block, not with a sentence"),
        ] {
            let text = if text.is_empty() { "\n" } else { text };
            assert_eq!(mistake(text).as_deref(), Some(what), "{text}");
        }
    }

    #[test]
    fn a_later_paragraph_is_not_judged() {
        assert_eq!(mistake(" The rate of the bundle.\n\n in bits,"), None);
    }
}
