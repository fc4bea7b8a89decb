//! The human-readable form of a comparison: for a terminal, in HTML and in Markdown.

use maud::html;

use super::{Comparison, Difference, Measure, Pair, Spread, Tally};
use crate::report::markup::{details, page, paragraph, section};
use crate::report::number::{count, figure, percent};
use crate::report::table::{Column, Row, Table};

/// The number of pairs up to which a terminal shows all of them; above it, only measures outside
/// their bands.
const PAIRS: usize = 12;
/// The number of values up to which an axis has a table.
const VALUES: usize = 30;
/// The measures of the table that has one row for each pair.
const IN_SHORT: [Measure; 5] =
    [Measure::Throughput, Measure::DelayMean, Measure::DelayP99, Measure::Drops, Measure::Marks];

/// Formats a comparison for a terminal.
pub fn text(comparison: &Comparison, colour: bool) -> String {
    let mut out = by_measure(comparison).text(colour);
    let all = comparison.pairs.len() <= PAIRS;
    let rows = differences(comparison, |d| all || !d.within);
    if !rows.rows.is_empty() {
        let what = if all { "All measures" } else { "Measures out of their bands" };
        out += &format!("\n{what}, the median over seeds and its range:\n{}", rows.text(colour));
    }
    if comparison.total.within < comparison.total.judged {
        for (axis, table) in by_axis(comparison) {
            out += &format!("\nPairs within, by {axis}:\n{}", table.text(colour));
        }
    }
    out + "\n" + &verdict(comparison) + "\n"
}

/// Formats a comparison as an HTML page. `a` and `b` describe the results in plain text.
pub fn html(comparison: &Comparison, a: &str, b: &str) -> String {
    let misses = differences(comparison, |d| !d.within);
    let range = "Medians over seeds, and their range";
    let all = differences(comparison, |_| true).html(range);
    let axis_caption = |axis| format!("Pairs with all measures in their bands, by {axis}");
    let body = html! {
        (paragraph(LEGEND))
        (section("By measure", by_measure(comparison).html("Pairs within their bands")))
        @if !misses.rows.is_empty() { (section("Out of their bands", misses.html(range))) }
        (section("Where they are", html! {
            @for (axis, table) in by_axis(comparison) { (table.html(&axis_caption(axis))) }
        }))
        (section("All measures", details("The table", all)))
    };
    page(&format!("{a} and {b}"), &verdict(comparison), body)
}

/// Formats a comparison as Markdown. `a` and `b` describe the results in plain text.
pub fn markdown(comparison: &Comparison, a: &str, b: &str) -> String {
    let mut out = format!("# {a} and {b}\n\n{}\n\n{LEGEND}\n\n", verdict(comparison));
    out += &format!("## By measure\n\n{}\n", by_measure(comparison).markdown());
    for (axis, table) in by_axis(comparison) {
        out += &format!("## By {axis}\n\n{}\n", table.markdown());
    }
    out += &format!("## In short\n\n{IN_SHORT_LEGEND}\n\n{}\n", in_short(comparison).markdown());
    out + &format!("## All measures\n\n{}", differences(comparison, |_| true).markdown())
}

const IN_SHORT_LEGEND: &str =
    "Each entry is the median of A / that of B. Pairs that are not within all bands have a star.";

/// A table with a row for each pair, ordered by their values on axes other than the path's.
fn in_short(c: &Comparison) -> Table {
    let mut pairs: Vec<&Pair> = c.pairs.iter().collect();
    let one_arm = pairs.windows(2).all(|two| two[0].arm == two[1].arm);
    let of_path = |axis: &str| axis == "rate" || axis == "rtt";
    pairs.sort_by_cached_key(|pair| {
        let mut axes = pair.axes.clone();
        axes.retain(|axis, _| !of_path(axis));
        axes
    });
    let columns = IN_SHORT.map(|measure| match measure.unit() {
        "" => Column::new("", measure.name()),
        unit => Column::new("", &format!("{}, {unit}", measure.name())),
    });
    let singles = |tally: Tally| format!("{}/{}", tally.within, tally.judged);
    let row = |pair: &&Pair| {
        let cell = |measure: Measure| {
            let difference = pair.measures.iter().find(|d| d.measure == measure);
            let median = |s: Option<Spread>| s.map_or("-".to_owned(), |s| figure(s.median));
            difference.map_or(String::new(), |d| format!("{} / {}", median(d.a), median(d.b)))
        };
        let mut cells = IN_SHORT.map(cell).to_vec();
        cells.push(pair.single_runs.map_or(String::new(), |runs| singles(runs.a)));
        cells.push(pair.single_runs.map_or(String::new(), |runs| singles(runs.b)));
        let star = if pair.within { "" } else { " \\*" };
        let arm = if one_arm { String::new() } else { format!(", {}", pair.arm) };
        let label = format!("{}{arm}{star}", pair.cell);
        Row { label, cells, strong: !pair.within }
    };
    let mut columns = columns.to_vec();
    columns.push(Column::new("", "single runs of A within"));
    columns.push(Column::new("", "of B"));
    let rows = pairs.iter().map(row).collect();
    Table { corner: "pair".to_owned(), columns, rows }.without_empty_columns()
}

const LEGEND: &str = "A pair is a cell and an arm that both have. A and B stand for the medians over the compared \
    seeds, with the lowest and the highest; the difference is B less A.";

/// Summarises the comparison in one or two sentences.
fn verdict(c: &Comparison) -> String {
    if c.pairs.is_empty() {
        return "The two have no run of the same cell, arm and seed.".to_owned();
    }
    let Tally { judged, within } = c.total;
    let share = c.total.share().map_or(String::new(), percent);
    let mut text = format!("{within} of {judged} pairs are within all their bands ({share}).");
    if let Some(runs) = &c.single_runs {
        text += &format!(
            " One run of B is within the bands around its other runs in {:.1} of them, and one run \
             of A within those around B in {:.1}.",
            runs.b, runs.a,
        );
    }
    if c.only_a + c.only_b > 0 {
        text +=
            &format!(" Not matched: {} runs of A and {} of B.", count(c.only_a), count(c.only_b));
    }
    text
}

fn by_measure(c: &Comparison) -> Table {
    let rows = c.by_measure.iter().map(|(name, tally)| {
        let of = c.pairs.iter().flat_map(|p| &p.measures).filter(|d| d.measure.name() == *name);
        let widest = of.clone().filter_map(|d| d.relative).fold(None, |widest: Option<f64>, r| {
            Some(widest.map_or(r, |w| if r.abs() > w.abs() { r } else { w }))
        });
        let band = of.clone().next().map_or(String::new(), |d| d.band.to_string());
        let mut cells = tally_cells(tally).to_vec();
        cells.extend([widest.map_or(String::new(), signed_percent), band]);
        Row { label: (*name).to_owned(), cells, strong: tally.within < tally.judged }
    });
    Table {
        corner: "measure".to_owned(),
        columns: [
            ("pairs", "judged"),
            ("pairs", "within"),
            ("pairs", "share"),
            ("difference", "widest"),
            ("difference", "band"),
        ]
        .map(|(group, name)| Column::new(group, name))
        .to_vec(),
        rows: rows.collect(),
    }
}

/// A table for each axis with several values; values that were drawn at random say nothing.
fn by_axis(c: &Comparison) -> Vec<(&str, Table)> {
    let table = |(axis, values): (_, &std::collections::BTreeMap<String, Tally>)| Table {
        corner: axis,
        columns: ["judged", "within", "share"].map(|name| Column::new("pairs", name)).to_vec(),
        rows: values
            .iter()
            .map(|(value, tally)| Row {
                label: value.clone(),
                cells: tally_cells(tally).to_vec(),
                strong: tally.within < tally.judged,
            })
            .collect(),
    };
    let several = c.by_axis.iter().filter(|(_, values)| (2..=VALUES).contains(&values.len()));
    several.map(|(axis, values)| (axis.as_str(), table((axis.clone(), values)))).collect()
}

fn tally_cells(tally: &Tally) -> [String; 3] {
    [count(tally.judged), count(tally.within), tally.share().map_or(String::new(), percent)]
}

/// A row for each difference that is `wanted`.
fn differences(c: &Comparison, wanted: impl Fn(&Difference) -> bool) -> Table {
    let several = c.pairs.iter().any(|p| p.cell != c.pairs[0].cell);
    let name = |p: &Pair| if several { format!("{}, {}", p.cell, p.arm) } else { p.arm.clone() };
    let mut rows = Vec::new();
    for pair in &c.pairs {
        for d in pair.measures.iter().filter(|d| wanted(d)) {
            let written = |value: Option<f64>| value.map_or(String::new(), figure);
            let median = |s: Option<Spread>| written(s.map(|s| s.median));
            let range = |s: Option<Spread>| {
                s.map_or(String::new(), |s| format!("{}..{}", figure(s.min), figure(s.max)))
            };
            let verdict = if d.within { "in" } else { "MISS" };
            rows.push(Row {
                label: name(pair),
                cells: vec![
                    unit(d),
                    median(d.a),
                    range(d.a),
                    median(d.b),
                    range(d.b),
                    written(d.absolute),
                    d.relative.map_or(String::new(), signed_percent),
                    d.band.to_string(),
                    verdict.to_owned(),
                ],
                strong: !d.within,
            });
        }
    }
    Table {
        corner: "pair".to_owned(),
        columns: [
            ("", "measure"),
            ("A", "median"),
            ("A", "range"),
            ("B", "median"),
            ("B", "range"),
            ("difference", "B - A"),
            ("difference", "share"),
            ("band", "allowed"),
            ("band", ""),
        ]
        .map(|(group, name)| Column::new(group, name))
        .to_vec(),
        rows,
    }
}

fn unit(d: &Difference) -> String {
    match d.measure.unit() {
        "" => d.measure.name().to_owned(),
        unit => format!("{}, {unit}", d.measure.name()),
    }
}

fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
