//! The main picture: the delay of both queues over time (after EuroSys '21, figure 2).

use maud::Markup;

use super::axis::linear_ticks;
use super::decisions;
use super::markup;
use super::number::{figure, setting};
use super::svg::{Anchor, Path, Svg};
use super::table::{Column, Row, Table};
use crate::analysis::{self, Analysis, Delay, Series};

/// The caption of the picture.
pub(crate) const CAPTION: &str = "Time that packets waited in each queue, over the measured interval: the \
    mean as a line, in a band from the lowest to the highest mean over 10 ms; at the right, the median \
    packet's. All panels have the same axes.";

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 92.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 26.0;
const PLOT: (f64, f64) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);

/// The number of columns of a curve: one per unit of width, about one or two pixels on any screen.
const COLUMNS: usize = PLOT.0 as usize;

/// The number of rows in the table behind the picture.
const TABLE_ROWS: usize = 30;

/// The smallest distance between the two labels at the right.
const LABEL_GAP: f64 = 34.0;

/// Adjacent panels, one per named run, on the same axes. `id` must be unique on the page.
pub(crate) fn figures(id: &str, runs: &[(String, &Analysis)], caption: &str) -> Markup {
    let all = runs.iter().flat_map(|(_, a)| [&a.bottleneck, &a.sendbox]);
    let highest = all.flat_map(|s| s.bins.iter().flatten()).map(|b| b.mean).fold(0.0, f64::max);
    let longest = runs.iter().map(|(_, a)| a.summary.duration_s).fold(1e-3, f64::max);
    let frame = Frame { ticks: linear_ticks(highest, 5), seconds: longest };
    let panels = runs
        .iter()
        .enumerate()
        .map(|(i, (name, run))| (name.clone(), panel(&format!("{id}{i}"), name, run, &frame)));
    markup::figure("panels", panels, caption, table(runs).html("Mean queue delay, ms"))
}

/// The layout of a panel.
struct Frame {
    /// The ticks of the delay axis in milliseconds.
    ticks: Vec<f64>,
    /// The length of the time axis.
    seconds: f64,
}

impl Frame {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + PLOT.0 * seconds / self.seconds
    }

    fn y(&self, ms: f64) -> f64 {
        let max = self.ticks.last().copied().unwrap_or(1.0);
        TOP + PLOT.1 * (1.0 - (ms / max).clamp(0.0, 1.0))
    }
}

fn panel(id: &str, name: &str, run: &Analysis, frame: &Frame) -> String {
    let s = &run.summary;
    let title = format!("Queue delay over time, {name}");
    let words = |delay: Option<Delay>| match delay {
        Some(d) => format!("median {} ms, 99th percentile {} ms", figure(d.p50), figure(d.p99)),
        None => "no queue".to_owned(),
    };
    let desc = format!(
        "Bottleneck: {}. Sendbox: {}. Measured over {} s.",
        words(s.bottleneck_queue_ms),
        words(s.sendbox_queue_ms),
        setting(s.duration_s)
    );
    let mut svg = Svg::new(id, &title, &desc, WIDTH, HEIGHT);
    axes(&mut svg, frame);
    decisions::mark(&mut svg, run, |s| frame.x(s), (TOP, TOP + PLOT.1));
    let mut labels = Vec::new();
    for (class, series, delay) in [
        ("bottleneck", &run.bottleneck, s.bottleneck_queue_ms),
        ("sendbox", &run.sendbox, s.sendbox_queue_ms),
    ] {
        curve(&mut svg, class, series, frame);
        let says = delay.map_or("no queue".to_owned(), |d| format!("{} ms", figure(d.p50)));
        labels.push(Label { class, says, y: end(series, frame) });
    }
    spread(&mut labels);
    for label in labels {
        let x = LEFT + PLOT.0 + 8.0;
        svg.text(&format!("name {}", label.class), (x, label.y), Anchor::Start, label.class);
        svg.text("tick", (x, label.y + 14.0), Anchor::Start, &label.says);
    }
    svg.finish()
}

fn axes(svg: &mut Svg, frame: &Frame) {
    for &ms in &frame.ticks {
        let y = frame.y(ms);
        svg.line(if ms == 0.0 { "axis" } else { "grid" }, (LEFT, y), (LEFT + PLOT.0, y));
        svg.text("tick", (LEFT - 6.0, y + 4.0), Anchor::End, &setting(ms));
    }
    svg.text("tick", (LEFT - 6.0, TOP - 12.0), Anchor::End, "ms");
    for seconds in linear_ticks(frame.seconds, 6) {
        if seconds <= frame.seconds * (1.0 + 1e-9) {
            let unit = if seconds == 0.0 { " s" } else { "" };
            let at = (frame.x(seconds), HEIGHT - 8.0);
            svg.text("tick", at, Anchor::Middle, &format!("{}{unit}", setting(seconds)));
        }
    }
}

/// The mean as a line in a band from the lowest to the highest 10 ms mean.
fn curve(svg: &mut Svg, class: &str, series: &Series, frame: &Frame) {
    let bins = series.bins_per_column(COLUMNS);
    let step = series.width.as_secs_f64() * bins as f64;
    let columns = series.grouped(bins);
    let (mut line, mut band) = (Path::default(), Path::default());
    let mut at = 0usize;
    // Without departures there is no delay to show, so each stretch without a gap is drawn
    // separately.
    for stretch in columns.split(Option::is_none) {
        let points: Vec<(f64, analysis::Column)> = (at..)
            .zip(stretch.iter().flatten())
            .map(|(i, c)| (frame.x((i as f64 + 0.5) * step), *c))
            .collect();
        at += stretch.len() + 1;
        if points.is_empty() {
            continue;
        }
        line = line.through(points.iter().map(|(x, c)| (*x, frame.y(c.mean))));
        let over = points.iter().map(|(x, c)| (*x, frame.y(c.high)));
        let under = points.iter().rev().map(|(x, c)| (*x, frame.y(c.low)));
        band = band.through(over.chain(under)).close();
    }
    svg.path(&format!("band {class}"), &band);
    svg.path(&format!("curve {class}"), &line);
}

/// A label of two lines at the right of a curve.
struct Label {
    class: &'static str,
    says: String,
    /// The base line of the first line.
    y: f64,
}

/// The height of a series' end: its mean over the last tenth; the bottom if it is empty.
fn end(series: &Series, frame: &Frame) -> f64 {
    let columns = series.grouped(series.bins_per_column(10));
    frame.y(columns.iter().rev().flatten().next().map_or(0.0, |c| c.mean))
}

/// Moves labels apart and into the panel.
fn spread(labels: &mut [Label]) {
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut ceiling = TOP + 8.0;
    let count = labels.len();
    for (i, label) in labels.iter_mut().enumerate() {
        let below = (count - 1 - i) as f64 * LABEL_GAP;
        let floor = TOP + PLOT.1 - 14.0 - below;
        label.y = label.y.min(floor).max(ceiling);
        ceiling = label.y + LABEL_GAP;
    }
}

fn table(runs: &[(String, &Analysis)]) -> Table {
    let all = || runs.iter().flat_map(|(_, a)| [&a.bottleneck, &a.sendbox]);
    let bins = all().map(|s| s.bins_per_column(TABLE_ROWS)).max().unwrap_or(1);
    let width = all().map(|s| s.width).max().unwrap_or(Series::WIDTH).as_secs_f64();
    let cells: Vec<_> = all().map(|s| s.grouped(bins)).collect();
    let queues = |(name, _): &(String, &Analysis)| {
        [Column::new(name, "bottleneck"), Column::new(name, "sendbox")]
    };
    let row = |i: usize| Row {
        label: format!("{:.1} s", i as f64 * width * bins as f64),
        cells: cells
            .iter()
            .map(|c| c.get(i).copied().flatten().map_or(String::new(), |c| figure(c.mean)))
            .collect(),
        strong: false,
    };
    let count = cells.iter().map(Vec::len).max().unwrap_or(0);
    Table {
        corner: "from".to_owned(),
        columns: runs.iter().flat_map(queues).collect(),
        rows: (0..count).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Bin;
    use crate::results::Run;
    use forebay_units::{Nanos, Rate};

    fn analysis(bins: Vec<Option<Bin>>) -> Analysis {
        let run = Run { rate: Rate::from_mbps(8), end: Nanos::from_secs(1), ..Run::default() };
        Analysis { bottleneck: Series { width: Series::WIDTH, bins }, ..Analysis::of(&run) }
    }

    fn bin(mean: f64) -> Option<Bin> {
        Some(Bin { packets: 1, mean, max: mean })
    }

    #[test]
    fn curves_break_where_no_packet_left() {
        let run = analysis(vec![bin(10.0), bin(20.0), None, None, bin(30.0)]);
        let frame = Frame { ticks: vec![0.0, 50.0, 100.0], seconds: 0.05 };
        let mut svg = Svg::new("q", "", "", WIDTH, HEIGHT);
        curve(&mut svg, "bottleneck", &run.bottleneck, &frame);
        let svg = svg.finish();
        // Bins of 10 ms, 61.6 units each, drawn at their middle; 1.7 units per millisecond.
        assert!(svg.contains("d=\"M70.8 177L70.8 177L132.4 160M317.2 143L317.2 143\""), "{svg}");
    }

    #[test]
    fn labels_keep_their_distance_inside_the_panel() {
        for (a, b) in [(0.0, 0.0), (300.0, 300.0), (100.0, 101.0), (50.0, 190.0)] {
            let label = |class, y| Label { class, says: String::new(), y };
            let mut labels = [label("bottleneck", a), label("sendbox", b)];
            spread(&mut labels);
            assert!(labels[1].y - labels[0].y >= LABEL_GAP, "{a} {b}");
            assert!(labels[0].y >= TOP && labels[1].y + 14.0 <= TOP + PLOT.1, "{a} {b}");
        }
    }

    #[test]
    fn a_long_run_makes_no_larger_a_picture() {
        let minute = analysis((0..6_000).map(|i| bin(f64::from(i % 97))).collect());
        let hour = analysis((0..360_000).map(|i| bin(f64::from(i % 97))).collect());
        let size = |run: &Analysis| figures("q", &[("x".to_owned(), run)], "").into_string().len();
        assert!(
            size(&hour) < 24_000 && size(&minute) < 24_000,
            "{} {}",
            size(&hour),
            size(&minute)
        );
    }
}
