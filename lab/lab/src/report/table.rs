//! A table for a terminal, Markdown or HTML.

use forebay_system::text::{escaped, escaped_lines};
use maud::{Markup, html};

/// The heads of a column; adjacent columns with the same group share its head.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) group: String,
    pub(crate) name: String,
}

impl Column {
    pub(crate) fn new(group: &str, name: &str) -> Self {
        Self { group: group.to_owned(), name: name.to_owned() }
    }
}

/// A row; an empty cell has no value.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) cells: Vec<String>,
    /// Whether the row is emphasised.
    pub(crate) strong: bool,
}

/// A table of numbers with labelled rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The head of the column of labels.
    pub(crate) corner: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// The width of a table on a terminal.
pub(crate) const WIDTH: usize = 80;
/// The widest column of labels; longer labels have several lines.
const LABEL: usize = 40;
/// The narrowest column of labels whose lines are worth breaking; below it, each label has lines of
/// its own above the row's values.
const NARROW: usize = 10;
/// The distance of values from the left below such a label.
const INDENT: usize = 4;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// The columns under one group head: the first, and one past the last.
type Span = (usize, usize);

impl Table {
    fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (i, column) in self.columns.iter().enumerate() {
            match spans.last_mut() {
                Some((first, end)) if self.columns[*first].group == column.group => *end = i + 1,
                _ => spans.push((i, i + 1)),
            }
        }
        spans
    }

    /// Removes columns in which no row has a value.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let has = |i: &usize| {
            self.rows.iter().any(|row| row.cells.get(*i).is_some_and(|cell| !cell.is_empty()))
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(has).collect();
        if !self.rows.is_empty() {
            self.columns = kept.iter().map(|i| self.columns[*i].clone()).collect();
            for row in &mut self.rows {
                row.cells = kept.iter().map(|i| row.cells[*i].clone()).collect();
            }
        }
        self
    }

    /// Formats the table for a terminal of 80 columns, with the strong rows and the head in bold if
    /// `colour`. No label is cut: long ones have several lines. A table with too many columns
    /// becomes several, one below the other.
    pub(crate) fn text(&self, colour: bool) -> String {
        let parts = self.parts();
        let texts: Vec<String> = parts.iter().map(|part| part.one_text(colour)).collect();
        texts.join("\n")
    }

    /// Splits the table at groups of columns into parts whose values fit on a terminal.
    fn parts(&self) -> Vec<Self> {
        let spans = self.spans();
        let (mut parts, mut first) = (Vec::new(), 0);
        for (n, &(begin, end)) in spans.iter().enumerate() {
            let fits = INDENT + taken(&self.of_columns(first, end).widths()) <= WIDTH;
            if !fits && begin > first {
                parts.push(self.of_columns(first, begin));
                first = begin;
            }
            if n + 1 == spans.len() {
                parts.push(self.of_columns(first, end));
            }
        }
        if parts.is_empty() { vec![self.clone()] } else { parts }
    }

    fn of_columns(&self, first: usize, end: usize) -> Self {
        let row = |row: &Row| Row { cells: row.cells[first..end].to_vec(), ..row.clone() };
        Self {
            corner: self.corner.clone(),
            columns: self.columns[first..end].to_vec(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// The widths of the columns of values.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(&c.name)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(&row.cells) {
                *w = (*w).max(width(cell));
            }
        }
        for (first, end) in self.spans() {
            let inside: usize = widths[first..end].iter().sum::<usize>() + (end - first - 1) * 2;
            let wanted = width(&self.columns[first].group).saturating_sub(inside);
            (0..wanted).for_each(|i| widths[first + i % (end - first)] += 1);
        }
        widths
    }

    fn one_text(&self, colour: bool) -> String {
        let widths = self.widths();
        let labels = self.rows.iter().map(|r| width(&r.label));
        let longest = labels.chain([width(&self.corner)]).max().unwrap_or(0);
        let room = WIDTH.saturating_sub(taken(&widths));
        // Labels stand beside the values, in several lines if need be, or else above them.
        let beside = room >= longest.min(NARROW);
        let label = if beside { longest.min(room).min(LABEL) } else { INDENT };
        let mut groups = " ".repeat(label);
        for (first, end) in self.spans() {
            let inside: usize = widths[first..end].iter().sum::<usize>() + (end - first - 1) * 2;
            groups += &format!("  {:>inside$}", self.columns[first].group);
        }
        let values = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (w, cell) in widths.iter().zip(cells) {
                line += &format!("  {:>w$}", if cell.is_empty() { "-" } else { cell });
            }
            line
        };
        let lines = |text: &str, values: String| -> Vec<String> {
            let mut lines = broken(text, if beside { label } else { WIDTH });
            if !beside {
                lines.push(String::new());
            }
            let last = lines.pop().unwrap_or_default();
            lines.push(format!("{last:label$}{values}"));
            lines
        };
        let names = values(&mut self.columns.iter().map(|c| c.name.as_str()));
        let rule = "-".repeat(label + width(&names));
        let mut out = vec![(groups, true)];
        out.extend(lines(&self.corner, names).into_iter().map(|line| (line, true)));
        out.push((rule, false));
        for row in &self.rows {
            let values = values(&mut row.cells.iter().map(String::as_str));
            let lines = lines(&row.label, values);
            out.extend(lines.into_iter().map(|line| (line, row.strong)));
        }
        out.iter()
            .map(|(line, strong)| match line.trim_end() {
                line if colour && *strong => format!("{BOLD}{line}{PLAIN}\n"),
                line => format!("{line}\n"),
            })
            .collect()
    }

    /// Formats the table in Markdown; group heads are joined with the columns' heads.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.map(|c| c.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let head = |c: &Column| format!("{} {}", c.group, c.name).trim().to_owned();
        let columns = &mut self.columns.iter().map(head);
        let mut out = line(&mut [self.corner.clone()].into_iter().chain(columns));
        out += &format!("|---|{}\n", "---:|".repeat(self.columns.len()));
        for row in &self.rows {
            out += &line(&mut [row.label.clone()].into_iter().chain(row.cells.iter().cloned()));
        }
        out
    }

    /// Formats the table in HTML, in a box that scrolls sideways on narrow screens.
    pub(crate) fn html(&self, caption: &str) -> Markup {
        html! {
            div class="scroll" role="region" aria-label=(caption) tabindex="0" {
                table {
                    caption { (caption) }
                    thead {
                        tr {
                            td {}
                            @for (first, end) in self.spans() {
                                @let scope = if end - first > 1 { "colgroup" } else { "col" };
                                th scope=(scope) colspan=(end - first) { (self.columns[first].group) }
                            }
                        }
                        tr class="names" {
                            th scope="col" { (self.corner) }
                            @for column in &self.columns { th scope="col" { (column.name) } }
                        }
                    }
                    tbody { @for row in &self.rows { (row.html()) } }
                }
            }
        }
    }
}

impl Row {
    fn html(&self) -> Markup {
        html! {
            tr class=[self.strong.then_some("strong")] {
                th scope="row" { (self.label) }
                @for cell in &self.cells { td { (if cell.is_empty() { "–" } else { cell.as_str() }) } }
            }
        }
    }
}

/// The columns that `text` takes on a terminal, assuming one column per character.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// Wraps `text` at spaces to lines of at most `width` columns.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
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

/// The columns that values of these widths take, each with two spaces before it.
fn taken(widths: &[usize]) -> usize {
    widths.iter().map(|w| w + 2).sum()
}

/// Returns a text with such tables for a terminal: control characters are escaped, except the ends
/// of lines and what begins and ends bold type.
pub fn printable(text: &str) -> String {
    let of_line = |part: &str| escaped_lines(part).into_owned();
    let plain = |part: &str| part.split(PLAIN).map(of_line).collect::<Vec<_>>().join(PLAIN);
    text.split(BOLD).map(plain).collect::<Vec<_>>().join(BOLD)
}

/// Breaks a label into lines of at most `room` columns, at spaces where it can.
fn broken(label: &str, room: usize) -> Vec<String> {
    // A control character in a name must not reach the terminal.
    let clean = escaped(label);
    let mut lines = vec![String::new()];
    for word in clean.split_inclusive([' ', '_', '-']) {
        let line = lines.last().map_or(0, |l| width(l));
        if line > 0 && line + width(word.trim_end()) > room {
            lines.push(String::new());
        }
        for letter in word.chars() {
            if lines.last().is_some_and(|l| letter != ' ' && width(l) >= room.max(1)) {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push(letter);
            }
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |label: &str, cells: [&str; 3], strong| Row {
            label: label.into(),
            cells: cells.map(str::to_owned).to_vec(),
            strong,
        };
        Table {
            corner: "arm".into(),
            columns: vec![
                Column::new("goodput", "Mbit/s"),
                Column::new("bottleneck queue", "p50"),
                Column::new("bottleneck queue", "p99"),
            ],
            rows: vec![
                row("Status <quo>", ["83.9", "71.2", "152"], false),
                row(&"x\x1b[2J".repeat(20), ["84.0", "", ""], true),
            ],
        }
    }

    #[test]
    fn on_a_terminal() {
        insta::assert_snapshot!(table().text(false), @r"
                                                  goodput  bottleneck queue
        arm                                        Mbit/s       p50     p99
        -------------------------------------------------------------------
        Status <quo>                                 83.9      71.2     152
        x\u001b[2Jx\u001b[2Jx\u001b[2Jx\u001b[2J
        x\u001b[2Jx\u001b[2Jx\u001b[2Jx\u001b[2J
        x\u001b[2Jx\u001b[2Jx\u001b[2Jx\u001b[2J
        x\u001b[2Jx\u001b[2Jx\u001b[2Jx\u001b[2J
        x\u001b[2Jx\u001b[2Jx\u001b[2Jx\u001b[2J     84.0         -       -
        ");
    }

    #[test]
    fn bold_type_is_all_that_a_terminal_acts_on() {
        let text = "\x1b[1mStatus\x1b[0m \x1b[2J\nquo\x1b[31m";
        assert_eq!(printable(text), "\x1b[1mStatus\x1b[0m \\u001b[2J\nquo\\u001b[31m");
    }

    #[test]
    fn long_labels_and_many_columns_fit_80_columns() {
        for columns in [1, 4, 8, 12, 30] {
            for label in ["a", "96 Mbit/s, 50 ms, cubic, in_network_sfq, seed 12", &"x".repeat(200)]
            {
                let cells = vec!["123 456".to_owned(); columns];
                let row = Row { label: label.to_owned(), cells, strong: false };
                let table = Table {
                    corner: "arm".into(),
                    columns: (0..columns).map(|n| Column::new(&format!("g{n}"), "name")).collect(),
                    rows: vec![row],
                };
                let text = table.text(false);
                assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
                assert_eq!(text.matches("123 456").count(), columns);
                let letters = |text: &str| text.matches('x').count();
                assert!(letters(&text) >= letters(label), "{text}");
            }
        }
    }

    #[test]
    fn columns_without_a_value_are_left_out() {
        let row = |cells: [&str; 3]| Row {
            label: "r".into(),
            cells: cells.map(str::to_owned).to_vec(),
            strong: false,
        };
        let table = Table { rows: vec![row(["1", "", ""]), row(["", "", "2"])], ..table() };
        let left = table.without_empty_columns();
        let names: Vec<_> = left.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["Mbit/s", "p99"]);
        assert_eq!(left.rows[1].cells, ["", "2"]);
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = table().text(true);
        assert!(coloured.matches(BOLD).count() > 3, "two heads and the lines of the strong row");
        assert_eq!(coloured.replace(BOLD, "").replace(PLAIN, ""), table().text(false));
    }

    #[test]
    fn in_markdown() {
        let markdown = table().markdown();
        let lines: Vec<_> = markdown.lines().collect();
        assert_eq!(
            lines[0],
            "| arm | goodput Mbit/s | bottleneck queue p50 | bottleneck queue p99 |"
        );
        assert_eq!(lines[1..3], ["|---|---:|---:|---:|", "| Status <quo> | 83.9 | 71.2 | 152 |"]);
    }

    #[test]
    fn in_html() {
        let html = table().html("Figures").into_string();
        assert!(html.contains("<th scope=\"colgroup\" colspan=\"2\">bottleneck queue</th>"));
        assert!(html.contains("<th scope=\"row\">Status &lt;quo&gt;</th><td>83.9</td>"));
        assert_eq!(html.matches("<td>–</td>").count(), 2);
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("incomprehensible", 7), "incomprehensible", "a word is not cut");
    }
}
