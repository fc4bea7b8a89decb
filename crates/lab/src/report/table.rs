//! A table for a terminal, Markdown or HTML.

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

/// The longest label on a terminal; a longer one is cut there, but not in HTML.
const LABEL: usize = 60;

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

    /// Formats the table for a terminal, with the strong rows and the head in bold if `colour`.
    pub(crate) fn text(&self, colour: bool) -> String {
        let spans = self.spans();
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(&c.name)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(&row.cells) {
                *w = (*w).max(width(cell));
            }
        }
        for &(first, end) in &spans {
            let inside: usize = widths[first..end].iter().sum::<usize>() + (end - first - 1) * 2;
            let wanted = width(&self.columns[first].group).saturating_sub(inside);
            (0..wanted).for_each(|i| widths[first + i % (end - first)] += 1);
        }
        let labels = self.rows.iter().map(|r| width(&shortened(&r.label)));
        let label = labels.chain([width(&self.corner)]).max().unwrap_or(0);

        let mut groups = " ".repeat(label);
        for &(first, end) in &spans {
            let inside: usize = widths[first..end].iter().sum::<usize>() + (end - first - 1) * 2;
            groups += &format!("  {:>inside$}", self.columns[first].group);
        }
        let line = |label_text: &str, cells: &mut dyn Iterator<Item = &str>| {
            let mut line = format!("{label_text:label$}");
            for (w, cell) in widths.iter().zip(cells) {
                line += &format!("  {:>w$}", if cell.is_empty() { "-" } else { cell });
            }
            line
        };
        let names = line(&self.corner, &mut self.columns.iter().map(|c| c.name.as_str()));
        let rule = "-".repeat(width(&names));
        let mut lines = vec![(groups, true), (names, true), (rule, false)];
        for row in &self.rows {
            let cells = &mut row.cells.iter().map(String::as_str);
            lines.push((line(&shortened(&row.label), cells), row.strong));
        }
        lines
            .iter()
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

fn shortened(label: &str) -> String {
    // A control character in a name must not reach the terminal.
    let clean = label.chars().map(|c| if c.is_control() { '?' } else { c });
    if width(label) <= LABEL {
        return clean.collect();
    }
    clean.take(LABEL - 2).chain("..".chars()).collect()
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
        arm                                                            Mbit/s       p50     p99
        ---------------------------------------------------------------------------------------
        Status <quo>                                                     83.9      71.2     152
        x?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[2Jx?[..     84.0         -       -
        ");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = table().text(true);
        assert_eq!(coloured.matches(BOLD).count(), 3, "two heads and the strong row");
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
}
