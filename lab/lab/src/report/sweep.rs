//! Line plots of figures over a parameter that the cells of an experiment vary.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::differences::{FIGURES, Figure, Spread};
use super::markup;
use super::number::{figure, setting};
use super::runs::Group;
use super::svg::Svg;
use super::table::{Column, Row, Table};
use crate::analysis::Summary;
use forebay_picture::plot::{Plot, class};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 230.0;
const AT: (f64, f64) = (44.0, 26.0);
const SIZE: (f64, f64) = (280.0, 160.0);

/// The number of curves in a plot: there are as many colours.
const CURVES: usize = 6;

/// A parameter with a number in each cell, such as the path's rate.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    name: String,
    unit: String,
}

/// The axes of a cell by name, with the number at the start of the value and the text after it.
fn axes(s: &Summary) -> BTreeMap<String, (f64, String)> {
    let mut axes: BTreeMap<String, (f64, String)> = s
        .labels
        .iter()
        .filter_map(|(name, value)| {
            let end = value.find(|c: char| !(c.is_ascii_digit() || ".-".contains(c)));
            let (number, unit) = value.split_at(end.unwrap_or(value.len()));
            Some((name.clone(), (number.parse().ok()?, unit.trim().to_owned())))
        })
        .collect();
    axes.insert("rate".to_owned(), (s.rate_mbps, "Mbit/s".to_owned()));
    axes.insert("round-trip time".to_owned(), (s.base_rtt_ms, "ms".to_owned()));
    axes
}

/// The axis with most values, at least three and all in one unit; `None` if there is none.
fn swept(groups: &[Group<'_>]) -> Option<Axis> {
    let mut values: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
    for group in groups {
        for (name, (value, unit)) in axes(&group.runs.first()?.summary) {
            values.entry((name, unit)).or_default().insert(value.to_bits());
        }
    }
    let most = values.iter().max_by_key(|(_, values)| values.len())?;
    let ((name, unit), values) = most;
    (values.len() >= 3).then(|| Axis { name: name.clone(), unit: unit.clone() })
}

/// A curve: its name, and the runs' spread at each value of the axis.
type Curve<'a> = (String, Vec<(f64, &'a Group<'a>)>);

/// The groups by arm and by the cell's values on other axes, in the order of first occurrence.
fn curves<'a>(groups: &'a [Group<'a>], axis: &Axis) -> Vec<Curve<'a>> {
    let mut curves: Vec<(String, Vec<(f64, &Group<'_>)>)> = Vec::new();
    // Axes with one value in all cells are not in the names.
    let varies = |name: &str| {
        let mut all = groups.iter().filter_map(|g| {
            let s = &g.runs.first()?.summary;
            let written = s.labels.get(name).cloned();
            Some(written.or_else(|| axes(s).get(name).map(|(value, _)| setting(*value))))
        });
        let first = all.next();
        all.any(|value| Some(value) != first)
    };
    for group in groups {
        let Some(run) = group.runs.first() else { continue };
        let all = axes(&run.summary);
        let Some((value, _)) = all.get(&axis.name) else { continue };
        let mut name = group.arm.to_owned();
        for (other, value) in &run.summary.labels {
            if *other != axis.name && varies(other) {
                name += &format!(", {other} {value}");
            }
        }
        for (other, unit) in [("rate", "Mbit/s"), ("round-trip time", "ms")] {
            if other != axis.name && varies(other) {
                name += &format!(", {} {unit}", all.get(other).map_or(0.0, |(v, _)| *v));
            }
        }
        match curves.iter_mut().find(|(own, _)| *own == name) {
            Some((_, points)) => points.push((*value, group)),
            None => curves.push((name, vec![(*value, group)])),
        }
    }
    for (_, points) in &mut curves {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

/// A plot of each figure that was measured, over the axis with most values; `None` if no axis has
/// three.
pub(super) fn figures(groups: &[Group<'_>]) -> Option<Markup> {
    let axis = swept(groups)?;
    let all = curves(groups, &axis);
    let drawn = &all[..all.len().min(CURVES)];
    let panels: Vec<(String, String)> = FIGURES
        .iter()
        .enumerate()
        .filter_map(|(i, f)| Some((f.name.to_owned(), panel(i, f, &axis, drawn)?)))
        .collect();
    let caption =
        format!("Medians over the seeds by {}, with the range of the seeds as a band.", axis.name);
    let left = all.len() - drawn.len();
    Some(html! {
        (markup::figure("panels", panels, &caption, table(&axis, &all).html(&caption)))
        @if left > 0 { (markup::paragraph(&format!("{left} more curves are in the table only."))) }
    })
}

fn panel(number: usize, f: &Figure, axis: &Axis, curves: &[Curve<'_>]) -> Option<String> {
    let spread = |group: &Group<'_>| Spread::of(f, &group.runs);
    let all: Vec<Spread> =
        curves.iter().flat_map(|(_, points)| points).filter_map(|(_, g)| spread(g)).collect();
    let highest = all.iter().map(|s| s.high).fold(f64::NAN, f64::max);
    if !highest.is_finite() {
        return None;
    }
    let reach = curves.iter().flat_map(|(_, p)| p).map(|(x, _)| *x).fold(0.0, f64::max);
    let desc: Vec<String> = curves
        .iter()
        .map(|(name, points)| {
            let said = points.iter().filter_map(|(x, g)| {
                Some(format!("{} at {}", figure(spread(g)?.median), setting(*x)))
            });
            format!("{name}: {}", said.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let title = format!("{} by {}", f.name, axis.name);
    let mut svg = Svg::new(&format!("sweep{number}"), &title, &desc.join(". "), WIDTH, HEIGHT);
    let plot = Plot::new(AT, SIZE, reach, highest);
    plot.rule(&mut svg, f.unit);
    plot.scale(&mut svg, &format!(" {}", axis.unit));
    let mut names = Vec::new();
    for (i, (name, points)) in curves.iter().enumerate() {
        let own: Vec<(f64, Option<Spread>)> = points.iter().map(|(x, g)| (*x, spread(g))).collect();
        let band: Vec<_> = own.iter().map(|(x, s)| s.map(|s| (*x, s.low, s.high))).collect();
        let line: Vec<_> = own.iter().map(|(x, s)| s.map(|s| (*x, s.median))).collect();
        plot.area(&mut svg, class(i), &band);
        plot.curve(&mut svg, class(i), &line);
        for (x, y) in line.iter().flatten() {
            svg.circle(&format!("dot {}", class(i)), (plot.x(*x), plot.y(*y)), 3.0);
        }
        if let Some((_, last)) = line.iter().flatten().next_back() {
            names.push((class(i), name.as_str(), *last));
        }
    }
    plot.names(&mut svg, &names);
    Some(svg.finish())
}

fn table(axis: &Axis, curves: &[Curve<'_>]) -> Table {
    let row = |name: &str, x: f64, group: &Group<'_>| Row {
        label: format!("{name}, {} {}", setting(x), axis.unit),
        cells: FIGURES
            .iter()
            .map(|f| Spread::of(f, &group.runs).map_or(String::new(), |s| figure(s.median)))
            .collect(),
        strong: false,
    };
    let rows =
        curves.iter().flat_map(|(name, points)| points.iter().map(|(x, g)| row(name, *x, g)));
    Table {
        corner: format!("arm, {}", axis.name),
        columns: FIGURES.iter().map(|f| Column::new(f.name, f.unit)).collect(),
        rows: rows.collect(),
    }
    .without_empty_columns()
}

#[cfg(test)]
mod tests {
    use forebay_units::{Nanos, Rate};

    use super::super::runs::groups;
    use super::*;
    use crate::analysis::Analysis;
    use crate::results::Run;

    fn run(mbps: u64, arm: &str, seed: u64, buffer: &str) -> Analysis {
        let mut run = Analysis::of(&Run {
            arm: arm.into(),
            seed,
            labels: [("buffer".to_owned(), buffer.to_owned())].into(),
            end: Nanos::from_secs(1),
            rate: Rate::from_mbps(mbps),
            base_rtt: Nanos::from_millis(20),
            ..Run::default()
        });
        run.summary.goodput_mbps = mbps as f64 / 2.0;
        run
    }

    #[test]
    fn the_axis_with_most_values_is_plotted() {
        let mut runs = Vec::new();
        for mbps in [8, 16, 32] {
            for buffer in ["1 bdp", "2 bdp"] {
                runs.extend(["a", "b"].map(|arm| run(mbps, arm, 1, buffer)));
            }
        }
        let groups = groups(&runs);
        let axis = swept(&groups).unwrap();
        assert_eq!((axis.name.as_str(), axis.unit.as_str()), ("rate", "Mbit/s"));
        let names: Vec<String> = curves(&groups, &axis).into_iter().map(|(name, _)| name).collect();
        let expected = ["a, buffer 1 bdp", "b, buffer 1 bdp", "a, buffer 2 bdp", "b, buffer 2 bdp"];
        assert_eq!(names, expected);
        let html = figures(&groups).unwrap().into_string();
        // Only goodput was measured.
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("a, buffer 2 bdp: 4.00 at 8, 8.00 at 16, 16.0 at 32"), "{html}");
    }

    #[test]
    fn labels_with_numbers_are_axes() {
        let runs = ["0.5 bdp", "1 bdp", "4 bdp"].map(|buffer| run(8, "a", 1, buffer));
        let axis = swept(&groups(&runs)).unwrap();
        assert_eq!((axis.name.as_str(), axis.unit.as_str()), ("buffer", "bdp"));
        let words = ["fifo", "pie", "codel"].map(|queue| run(8, "a", 1, queue));
        assert_eq!(swept(&groups(&words)), None, "words have no order");
        let mixed = ["1 bdp", "2 packets", "3 ms"].map(|buffer| run(8, "a", 1, buffer));
        assert_eq!(swept(&groups(&mixed)), None, "nor have values in different units");
    }
}
