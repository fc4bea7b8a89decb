use super::Demo;
use crate::report::tables;

impl Demo {
    /// Formats the results for a terminal: a table of at most 100 columns and a sentence, with bold
    /// type if `colour` (see [`colour_wanted`](crate::report::colour_wanted)).
    pub fn table(&self, colour: bool) -> String {
        let table = tables::figures(&self.named()).text(colour);
        format!("{table}\n{}\n", wrapped(&self.document().verdict.sentence, WIDTH))
    }
}

/// The width in columns.
const WIDTH: usize = 100;

/// Wraps `text` at spaces to lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("incomprehensible", 7), "incomprehensible", "a word is not cut");
    }
}
