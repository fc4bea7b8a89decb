//! Goodput and round trips over time, of own runs and of those of other tools.

use forebay_picture::plot::{Plot, class};
use maud::{Markup, html};

use super::markup;
use super::number::figure;
use super::svg::Svg;
use super::table::{Column, Row, Table};
use crate::analysis::Analysis;

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 200.0;
const AT: (f64, f64) = (44.0, 26.0);
const SIZE: (f64, f64) = (360.0, 140.0);

/// The number of spans between two rows in the table behind the picture.
const TABLE_STEP: usize = 4;

/// Panels of goodput and of round trips, those of a kind on the same axes; runs without have none.
/// `None` if no run has any. `id` must be unique on the page.
pub(super) fn figures(id: &str, runs: &[(String, &Analysis)]) -> Option<Markup> {
    let goodput: Vec<_> = runs.iter().filter(|(_, run)| run.course.has_goodput()).collect();
    let trips: Vec<_> =
        runs.iter().filter(|(_, run)| !run.course.round_trips_ms.is_empty()).collect();
    if goodput.is_empty() && trips.is_empty() {
        return None;
    }
    Some(html! {
        @if !goodput.is_empty() {
            h3 { "Goodput" }
            (markup::figure(
                "panels",
                panels(&format!("{id}g"), "Mbit/s", &goodput, goodput_of),
                "Payload that reached receivers, all traffic together.",
                table(&goodput, goodput_of).html("Goodput, Mbit/s"),
            ))
        }
        @if !trips.is_empty() {
            h3 { "Round trips" }
            (markup::figure(
                "panels",
                panels(&format!("{id}r"), "ms", &trips, trips_of),
                "Round trips of all closed loops: the median in a band from the 10th to the 90th \
                 percentile.",
                table(&trips, trips_of).html("Median round trip, ms"),
            ))
        }
    })
}

/// A value over time: the time in seconds, and the 10th percentile, the median and the 90th.
type Point = Option<(f64, [f64; 3])>;

fn goodput_of(run: &Analysis) -> Vec<Point> {
    let step = run.course.width.as_secs_f64();
    let values = run.course.goodput_mbps.iter().enumerate();
    values.map(|(i, mbps)| Some(((i as f64 + 0.5) * step, [*mbps; 3]))).collect()
}

fn trips_of(run: &Analysis) -> Vec<Point> {
    let spans = &run.course.round_trips_ms;
    let step = spans.width.as_secs_f64();
    let all = spans.spans.iter().enumerate();
    all.map(|(i, q)| q.map(|q| ((i as f64 + 0.5) * step, [q.p10, q.p50, q.p90]))).collect()
}

fn panels(
    id: &str,
    unit: &str,
    runs: &[&(String, &Analysis)],
    of: fn(&Analysis) -> Vec<Point>,
) -> Vec<(String, String)> {
    let seconds = runs.iter().map(|(_, run)| run.summary.duration_s).fold(1e-3, f64::max);
    let points: Vec<Vec<Point>> = runs.iter().map(|(_, run)| of(run)).collect();
    let highest = points.iter().flatten().flatten().map(|(_, v)| v[2]).fold(0.0, f64::max);
    let panel = |(i, points): (usize, &Vec<Point>)| {
        let name = &runs[i].0;
        let values: Vec<f64> = points.iter().flatten().map(|(_, v)| v[1]).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let desc = format!("Between {} and {} {unit}.", figure(least), figure(most));
        let mut svg =
            Svg::new(&format!("{id}{i}"), &format!("{name}, {unit}"), &desc, WIDTH, HEIGHT);
        let plot = Plot::new(AT, SIZE, seconds, highest);
        plot.rule(&mut svg, unit);
        plot.scale(&mut svg, " s");
        let band: Vec<_> = points.iter().map(|p| p.map(|(x, v)| (x, v[0], v[2]))).collect();
        let line: Vec<_> = points.iter().map(|p| p.map(|(x, v)| (x, v[1]))).collect();
        plot.area(&mut svg, class(0), &band);
        plot.curve(&mut svg, class(0), &line);
        (name.clone(), svg.finish())
    };
    points.iter().enumerate().map(panel).collect()
}

fn table(runs: &[&(String, &Analysis)], of: fn(&Analysis) -> Vec<Point>) -> Table {
    let all: Vec<Vec<Point>> = runs.iter().map(|(_, run)| of(run)).collect();
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    // Runs of different lengths have spans of different lengths, so each has its own times.
    let cells = |i: usize| {
        let pair = |points: &Vec<Point>| match points.get(i).copied().flatten() {
            Some((x, v)) => [format!("{x:.1}"), figure(v[1])],
            None => [String::new(), String::new()],
        };
        all.iter().flat_map(pair).collect()
    };
    let row = |i: usize| Row { label: (i + 1).to_string(), cells: cells(i), strong: false };
    let columns = runs.iter().flat_map(|(name, _)| ["at s", "value"].map(|c| Column::new(name, c)));
    Table {
        corner: "span".to_owned(),
        columns: columns.collect(),
        rows: (0..longest).step_by(TABLE_STEP).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Nanos;

    use super::*;
    use crate::analysis::Course;
    use crate::results::Run;

    #[test]
    fn runs_without_round_trips_have_no_panel_of_them() {
        let run = Run { end: Nanos::from_secs(1), ..Run::default() };
        let none = Analysis::of(&run);
        let mut some = Analysis::of(&run);
        some.course = Course {
            goodput_mbps: vec![1.0, 3.0],
            width: Nanos::from_millis(500),
            ..Course::default()
        };
        let runs = [("none".to_owned(), &none), ("some".to_owned(), &some)];
        let html = figures("c", &runs).unwrap().into_string();
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("Between 1.00 and 3.00 Mbit/s.") && !html.contains("Round trips"));
        assert!(figures("c", &runs[..1]).is_none());
    }
}
