//! The delay of both queues over time (after EuroSys '21, figure 2), and who waits there.

use maud::{Markup, html};

use super::axis::linear_ticks;
use super::decisions;
use super::markup;
use super::number::{figure, setting};
use super::svg::{Anchor, Path, Svg};
use super::table::{Column, Row, Table};
use crate::analysis::{Analysis, ByTransfer, Delay, Quantiles, Spans};

/// The caption of the pictures.
pub(crate) const CAPTION: &str = "Time that packets waited in each queue, over the measured interval: the \
    median as a line, in a band from the 10th to the 90th percentile; at the right, the median of the \
    whole interval. All panels of a row have the same axes.";

/// The definition of small and large transfers, for the caption.
const TRANSFERS: &str = " A transfer is what a flow sends without a pause; a small one has at most ten \
    packets, and a large one more than 1 MB.";

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 92.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 26.0;
const PLOT: (f64, f64) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);

/// The number of spans between two rows in the table behind the picture.
const TABLE_STEP: usize = 4;

/// The smallest distance between the two labels at the right.
const LABEL_GAP: f64 = 34.0;

/// The packets whose waits are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Small,
    Large,
}

impl Part {
    /// The heading above the panels.
    const fn heading(self) -> &'static str {
        match self {
            Self::All => "All packets",
            Self::Small => "Packets of small transfers: short requests and their like",
            Self::Large => "Packets of large transfers",
        }
    }

    fn of<T>(self, values: &ByTransfer<T>) -> &T {
        match self {
            Self::All => &values.all,
            Self::Small => &values.small,
            Self::Large => &values.large,
        }
    }

    /// The two queues of `run`: their class, their waits over time and the delay over all of it.
    fn queues(self, run: &Analysis) -> [(&'static str, &Spans, Option<Delay>); 2] {
        let s = &run.summary;
        let who = s.who_waits.unwrap_or_default();
        let [bottleneck, sendbox] = match self {
            Self::All => [s.bottleneck_queue_ms, s.sendbox_queue_ms],
            Self::Small => [who.bottleneck_small_ms, who.sendbox_small_ms],
            Self::Large => [who.bottleneck_large_ms, who.sendbox_large_ms],
        };
        [
            ("bottleneck", self.of(&run.waits.bottleneck), bottleneck),
            ("sendbox", self.of(&run.waits.sendbox), sendbox),
        ]
    }

    fn is_in(self, run: &Analysis) -> bool {
        self.queues(run).iter().any(|(_, spans, _)| !spans.is_empty())
    }
}

/// Rows of adjacent panels, one panel per named run with waits: a row for small and one for large
/// transfers where runs tell them apart, else one for all packets. `id` must be unique on the page.
pub(crate) fn figures(id: &str, runs: &[(String, &Analysis)]) -> Markup {
    if !runs.iter().any(|(_, run)| run.waits.are_split()) {
        return row(id, Part::All, runs, CAPTION);
    }
    let caption = format!("{CAPTION}{TRANSFERS}");
    html! {
        @for (part, caption) in [(Part::Small, ""), (Part::Large, &caption)] {
            h3 { (part.heading()) }
            (row(&format!("{id}{}", part as u8), part, runs, caption))
        }
    }
}

/// Adjacent panels on the same axes. Runs without such packets have none.
fn row(id: &str, part: Part, runs: &[(String, &Analysis)], caption: &str) -> Markup {
    let runs: Vec<_> = runs.iter().filter(|(_, run)| part.is_in(run)).collect();
    if runs.is_empty() {
        return markup::paragraph("No packet of this kind left a queue while measuring.");
    }
    let all = runs.iter().flat_map(|(_, run)| part.queues(run));
    let waits = all.flat_map(|(_, spans, _)| spans.spans.iter().flatten());
    let highest = waits.map(|q| q.p90).fold(0.0, f64::max);
    let longest = runs.iter().map(|(_, a)| a.summary.duration_s).fold(1e-3, f64::max);
    let frame = Frame { ticks: linear_ticks(highest, 5), seconds: longest };
    let panels = runs.iter().enumerate().map(|(i, (name, run))| {
        (name.clone(), panel(&format!("{id}{i}"), name, part, run, &frame))
    });
    markup::figure("panels", panels, caption, table(part, &runs).html("Median wait, ms"))
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

fn panel(id: &str, name: &str, part: Part, run: &Analysis, frame: &Frame) -> String {
    let title = format!("Wait in the queues over time, {name}, {}", part.heading());
    let queues = part.queues(run);
    let words = queues.map(|(place, _, delay)| match delay {
        Some(d) => {
            format!("{place}: median {} ms, 99th percentile {} ms", figure(d.p50), figure(d.p99))
        }
        None => format!("{place}: no queue"),
    });
    let seconds = setting(run.summary.duration_s);
    let desc = format!("{}. Measured over {seconds} s.", words.join(". "));
    let mut svg = Svg::new(id, &title, &desc, WIDTH, HEIGHT);
    axes(&mut svg, frame);
    decisions::mark(&mut svg, run, |s| frame.x(s), (TOP, TOP + PLOT.1));
    let mut labels = Vec::new();
    for (class, spans, delay) in queues {
        curve(&mut svg, class, spans, frame);
        if let Some(delay) = delay {
            let says = format!("{} ms", figure(delay.p50));
            labels.push(Label { class, says, y: frame.y(delay.p50) });
        }
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

/// The median as a line in a band from the 10th to the 90th percentile.
fn curve(svg: &mut Svg, class: &str, spans: &Spans, frame: &Frame) {
    let step = spans.width.as_secs_f64();
    let (mut line, mut band) = (Path::default(), Path::default());
    let mut at = 0usize;
    // Without departures there is no wait to show, so each stretch without a gap is drawn
    // separately.
    for stretch in spans.spans.split(Option::is_none) {
        let points: Vec<(f64, Quantiles)> = (at..)
            .zip(stretch.iter().flatten())
            .map(|(i, q)| (frame.x((i as f64 + 0.5) * step), *q))
            .collect();
        at += stretch.len() + 1;
        if points.is_empty() {
            continue;
        }
        line = line.through(points.iter().map(|(x, q)| (*x, frame.y(q.p50))));
        let over = points.iter().map(|(x, q)| (*x, frame.y(q.p90)));
        let under = points.iter().rev().map(|(x, q)| (*x, frame.y(q.p10)));
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

fn table(part: Part, runs: &[&(String, &Analysis)]) -> Table {
    let all = || {
        let queues = runs.iter().flat_map(|(name, run)| part.queues(run).map(|q| (name, q)));
        queues.filter(|(_, (_, spans, _))| !spans.is_empty())
    };
    let width = all().map(|(_, (_, s, _))| s.width).max().unwrap_or_default().as_secs_f64();
    let longest = all().map(|(_, (_, s, _))| s.spans.len()).max().unwrap_or(0);
    let cell = |spans: &Spans, i: usize| {
        spans.spans.get(i).copied().flatten().map_or(String::new(), |q| figure(q.p50))
    };
    let row = |i: usize| Row {
        label: format!("{:.1} s", i as f64 * width),
        cells: all().map(|(_, (_, spans, _))| cell(spans, i)).collect(),
        strong: false,
    };
    Table {
        corner: "from".to_owned(),
        columns: all().map(|(name, (place, ..))| Column::new(name, place)).collect(),
        rows: (0..longest).step_by(TABLE_STEP).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Waits;
    use crate::results::Run;
    use forebay_units::{Nanos, Rate};

    fn analysis(spans: Vec<Option<Quantiles>>, width: Nanos) -> Analysis {
        let run = Run { rate: Rate::from_mbps(8), end: Nanos::from_secs(1), ..Run::default() };
        let all = Spans { width, spans };
        let bottleneck = ByTransfer { all, ..ByTransfer::default() };
        let waits = Waits { bottleneck, ..Waits::default() };
        Analysis { waits, ..Analysis::of(&run) }
    }

    fn wait(p50: f64) -> Option<Quantiles> {
        Some(Quantiles { packets: 9, p10: p50 / 2.0, p50, p90: p50 * 2.0 })
    }

    #[test]
    fn curves_break_where_no_packet_left() {
        let spans = vec![wait(10.0), wait(20.0), None, None, wait(30.0)];
        let run = analysis(spans, Nanos::from_millis(10));
        let frame = Frame { ticks: vec![0.0, 50.0, 100.0], seconds: 0.05 };
        let mut svg = Svg::new("q", "", "", WIDTH, HEIGHT);
        curve(&mut svg, "bottleneck", &run.waits.bottleneck.all, &frame);
        let svg = svg.finish();
        // Spans of 10 ms, 61.6 units each, drawn at their middle; 1.7 units per millisecond.
        assert!(svg.contains("d=\"M70.8 177L70.8 177L132.4 160M317.2 143L317.2 143\""), "{svg}");
    }

    #[test]
    fn runs_without_waits_have_no_panel() {
        let width = Nanos::from_millis(10);
        let (full, empty) = (analysis(vec![wait(1.0)], width), analysis(vec![None], width));
        let runs = [("full".to_owned(), &full), ("empty".to_owned(), &empty)];
        let html = figures("q", &runs).into_string();
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("full") && !html.contains("empty"), "{html}");
        assert!(figures("q", &runs[1..]).into_string().contains("No packet"));
    }

    #[test]
    fn small_and_large_transfers_have_rows_of_their_own() {
        let mut run = analysis(vec![wait(1.0)], Nanos::from_millis(10));
        run.waits.sendbox.large = run.waits.bottleneck.all.clone();
        run.waits.sendbox.small = run.waits.bottleneck.all.clone();
        let html = figures("q", &[("x".to_owned(), &run)]).into_string();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.find("small transfers").unwrap() < html.find("large transfers").unwrap());
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
}
