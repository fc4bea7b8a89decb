//! Lines of prose that are too wide.

use crate::links;
use crate::prose::Prose;

/// The widest line of prose, in columns.
const WIDEST: usize = 100;
/// Columns from one tab stop to the next.
const TAB: usize = 4;

/// The lines that are too wide. `whole` gives the line of the file, with indentation and comment
/// marker, that a line of the prose stands on.
pub(crate) fn check(prose: &Prose, whole: impl Fn(usize, &str) -> String) -> Vec<(usize, String)> {
    let text = prose.lines.iter().filter(|line| !line.is_code);
    text.filter(|line| !line.text.trim_start().starts_with('|'))
        .filter_map(|line| {
            let width = width(&what_can_be_wrapped(&whole(line.number, &line.text)));
            (width > WIDEST).then(|| (line.number, format!("{width} columns, {WIDEST} at most")))
        })
        .collect()
}

fn width(line: &str) -> usize {
    line.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum()
}

/// The line without the targets of links and without URLs, neither of which can be wrapped.
fn what_can_be_wrapped(line: &str) -> String {
    // A target that is on the next line counts there.
    let kept = links::without_targets(line);
    if let Some((label, _)) =
        kept.split_once("]: ").filter(|(l, _)| l.trim_start().starts_with('['))
    {
        return format!("{label}]:");
    }
    let words =
        kept.split(' ').filter(|word| !word.contains("http://") && !word.contains("https://"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<usize> {
        let prose = Prose::new(text.lines().enumerate().map(|(i, line)| (i + 1, line)));
        check(&prose, |_, line| line.to_owned()).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn lines_of_text_have_a_hundred_columns_at_most() {
        let (fits, wider) = ("x".repeat(100), "ö".repeat(101));
        assert_eq!(wide(&format!("{fits}\n{wider}\n{fits}")), [2]);
    }

    #[test]
    fn tables_and_code_blocks_may_be_wider() {
        let wider = "x".repeat(200);
        assert_eq!(wide(&format!("| {wider}\n```\n{wider}\n```\n")), [] as [usize; 0]);
    }

    #[test]
    fn targets_and_addresses_do_not_count() {
        let target = "x".repeat(90);
        assert_eq!(wide(&format!("A [link]({target}.md).")), [] as [usize; 0]);
        assert_eq!(wide(&format!("At <https://{target}/{target}>.")), [] as [usize; 0]);
        assert_eq!(wide(&format!("[link]: {target}{target}")), [] as [usize; 0]);
        assert_eq!(wide(&format!("A [link]({target}.md) and {}", "word ".repeat(19))), [1]);
    }

    #[test]
    fn the_whole_line_counts_with_its_marker() {
        let text = "x".repeat(96);
        let prose = Prose::new([(1, text.as_str())]);
        assert_eq!(check(&prose, |_, line| format!("\t// {line}")).len(), 1);
        assert_eq!(check(&prose, |_, line| format!("/// {line}")).len(), 0);
    }
}
