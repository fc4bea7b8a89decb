//! Prose of pages, wrapped at the width that Markdown has in this project.

/// The widest line of prose on a page.
const WIDTH: usize = 100;

/// Joins the words of `text` into lines of at most [`WIDTH`] characters, each but the first after
/// `indent`. A longer word has a line of its own.
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out += "\n";
            out += indent;
            column = indent.chars().count();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_a_page_and_no_word_is_lost() {
        let text = "some words of prose ".repeat(30);
        let wrapped = wrapped(&text, "  ");
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("  ")));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&wrapped), words(&text));
    }
}
