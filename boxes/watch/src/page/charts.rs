//! The charts of a bundle. All have the same time axis, the bundle's modes as a strip above, and
//! its events as lines.

use forebay_picture::date::time_of_day;
use forebay_picture::number::figure;
use forebay_picture::plot::Plot;
use forebay_picture::svg::Svg;
use maud::{Markup, PreEscaped, html};

use super::buckets::{Buckets, POINTS, dropped, marked, merge};
use crate::bands::Band;
use crate::event::LogEvent;
use crate::series::{Direction, Range, Row, Sample};

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 178.0;
/// The corner and the size of the plot.
const AT: (f64, f64) = (42.0, 32.0);
const SIZE: (f64, f64) = (350.0, 118.0);
/// The strip of modes: its place and height.
const STRIP: (f64, f64) = (4.0, 8.0);
/// The parts that say their figures under the pointer.
const PARTS: usize = 45;

/// The class of the line of the limit.
const LIMIT: &str = "c5";

/// A line of a chart.
struct Line {
    class: &'static str,
    name: &'static str,
    of: fn(&Sample) -> Option<f64>,
}

/// The lowest and the highest value of a sample.
type Extent = fn(&Sample) -> Option<(f64, f64)>;

/// What a chart shows.
struct Chart {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    lines: &'static [Line],
    /// Whether the lines are the classes of the bundle, in their order.
    by_class: bool,
    /// The area between the extremes of one of the lines, with that line's class.
    area: Option<(&'static str, Extent)>,
}

const QUEUE: Chart = Chart {
    name: "queue",
    title: "Where the queue is",
    unit: "ms",
    lines: &[
        Line { class: "sendbox", name: "waits here", of: |s| s.here_ms },
        Line { class: "bottleneck", name: "waits at the bottleneck", of: |s| s.there_ms },
    ],
    by_class: false,
    area: Some(("bottleneck", |s| s.there_low_ms.zip(s.there_high_ms))),
};

const WHO: Chart = Chart {
    name: "who",
    title: "Who waits here",
    unit: "ms",
    lines: &[
        Line { class: "c3", name: "small transfers", of: |s| s.small_ms },
        Line { class: "sendbox", name: "large transfers", of: |s| s.large_ms },
    ],
    by_class: false,
    area: Some(("c3", |s| s.small_ms.zip(s.small_high_ms))),
};

const CLASS: Chart = Chart {
    name: "class",
    title: "Which class waits here",
    unit: "ms",
    lines: &[
        Line { class: "c3", name: "1", of: |s| s.classes_ms[0] },
        Line { class: "sendbox", name: "2", of: |s| s.classes_ms[1] },
        Line { class: "bottleneck", name: "3", of: |s| s.classes_ms[2] },
        Line { class: "strong", name: "4", of: |s| s.classes_ms[3] },
    ],
    by_class: true,
    area: None,
};

const RATE: Chart = Chart {
    name: "rate",
    title: "Rate, against what arrives",
    unit: "Mbit/s",
    lines: &[
        Line { class: LIMIT, name: "limit", of: |s| mega(s.limit_bps) },
        Line { class: "sendbox", name: "left here", of: |s| mega(s.rate_bps) },
        Line { class: "strong", name: "arrived there", of: |s| mega(s.arrived_bps) },
    ],
    by_class: false,
    area: None,
};

const DROPS: Chart = Chart {
    name: "drops",
    title: "Drops and marks, of all packets",
    unit: "%",
    lines: &[
        Line { class: "sendbox", name: "dropped here", of: |s| percent(dropped(s)) },
        Line { class: "c3", name: "marked here", of: |s| percent(marked(s)) },
        Line { class: "bottleneck", name: "lost on the path", of: |s| percent(s.lost) },
    ],
    by_class: false,
    area: None,
};

const ARRIVALS: Chart = Chart {
    name: "rate",
    title: "What arrives here",
    unit: "Mbit/s",
    lines: &[Line { class: "strong", name: "arrived here", of: |s| mega(s.rate_bps) }],
    by_class: false,
    area: None,
};

fn mega(bps: Option<f64>) -> Option<f64> {
    bps.map(|bps| bps / 1e6)
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

impl Chart {
    /// Returns the lines with their names; of classes those that the bundle has.
    fn lines<'a>(&self, shared: &'a Shared<'_>) -> Vec<(&'a str, &'static Line)> {
        match self.by_class {
            true => shared.classes.iter().map(String::as_str).zip(self.lines).collect(),
            false => self.lines.iter().map(|line| (line.name, line)).collect(),
        }
    }
}

/// What all charts of a bundle share.
pub(super) struct Shared<'a> {
    pub(super) id: &'a str,
    pub(super) direction: Direction,
    /// The names of the classes.
    pub(super) classes: &'a [String],
    pub(super) rows: &'a [Row],
    pub(super) bands: &'a [Band],
    pub(super) events: &'a [LogEvent],
    pub(super) range: Range,
    /// The present time in seconds since 1970.
    pub(super) now: u64,
}

/// Draws the charts of a bundle.
pub(super) fn charts(shared: &Shared<'_>) -> Markup {
    let all: &[Chart] = match shared.direction {
        Direction::To => &[QUEUE, WHO, CLASS, RATE, DROPS],
        Direction::From => &[ARRIVALS],
    };
    let buckets = Buckets::new(shared.rows, shared.range, shared.now, POINTS);
    // Who waits is not known of every bundle.
    let is_known = |chart: &&Chart| match chart.name {
        "who" => buckets.samples.iter().flatten().any(|s| s.small_ms.or(s.large_ms).is_some()),
        _ => !chart.lines(shared).is_empty(),
    };
    html! { @for chart in all.iter().filter(is_known) { (figure_of(chart, shared, &buckets)) } }
}

fn figure_of(chart: &Chart, shared: &Shared<'_>, buckets: &Buckets) -> Markup {
    let id = format!("{}-{}", shared.id, chart.name);
    html! {
        figure {
            figcaption {
                (chart.title)
                p class="say" {
                    @for (name, line) in chart.lines(shared) {
                        span class={ "key " (line.class) } { (name) }
                        " "
                    }
                }
            }
            (PreEscaped(draw(chart, shared, buckets, &id)))
        }
    }
}

fn draw(chart: &Chart, shared: &Shared<'_>, buckets: &Buckets, id: &str) -> String {
    let highest = highest(chart, buckets);
    let plot = Plot::new(AT, SIZE, buckets.length() as f64, highest);
    let mut svg = Svg::new(id, chart.title, &describe(chart, shared, buckets), WIDTH, HEIGHT);
    plot.rule(&mut svg, chart.unit);
    plot.marks(&mut svg, &clock_marks(shared.range, buckets));
    let place = |at: u64| plot.x(at.saturating_sub(buckets.start) as f64);
    for band in shared.bands.iter().filter(|band| band.to > buckets.start) {
        let (left, right) = (place(band.from), place(band.to));
        let corner = (left, STRIP.0);
        let why = band.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let title =
            format!("{} from {}{why}", band.condition.word(), time_of_day(band.from * 1000));
        let class = format!("mode-{}", band.condition.class());
        svg.titled_rect(&class, corner, ((right - left).max(1.0), STRIP.1), &title);
    }
    for event in shared.events.iter().filter(|event| event.at_ms / 1000 >= buckets.start) {
        let x = plot.x(event.at_ms as f64 / 1e3 - buckets.start as f64);
        let title = format!("{} {}", time_of_day(event.at_ms), event.text);
        svg.titled_line("event mode", (x, STRIP.0 + STRIP.1), (x, plot.bottom()), &title);
    }
    let points = |of: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Option<(f64, f64)>> {
        let at = |(index, sample): (usize, &Option<Sample>)| {
            sample.as_ref().and_then(of).map(|value| (buckets.middle(index), value))
        };
        buckets.samples.iter().enumerate().map(at).collect()
    };
    if let Some((class, of)) = chart.area {
        let extents: Vec<_> = buckets
            .samples
            .iter()
            .enumerate()
            .map(|(index, sample)| {
                let extent = sample.as_ref().and_then(of);
                extent.map(|(low, high)| (buckets.middle(index), low, high))
            })
            .collect();
        plot.area(&mut svg, class, &extents);
    }
    for line in chart.lines {
        plot.curve(&mut svg, line.class, &points(&line.of));
    }
    hits(chart, shared, &mut svg, &plot, buckets);
    svg.finish()
}

/// Returns the end of the axis at the left. A limit far above the traffic, as at the start, is cut
/// off there, since nothing else could be seen below it.
fn highest(chart: &Chart, buckets: &Buckets) -> f64 {
    let there = || buckets.samples.iter().flatten();
    let most = |line: &Line| there().filter_map(line.of).fold(0.0, f64::max);
    let is_limit = |line: &&Line| line.class == LIMIT;
    let traffic = chart.lines.iter().filter(|line| !is_limit(line)).map(most).fold(0.0, f64::max);
    let limit = chart.lines.iter().filter(is_limit).map(most).fold(0.0, f64::max);
    let limit = if traffic > 0.0 { limit.min(2.0 * traffic) } else { limit };
    let extent = chart.area.map(|(_, of)| of);
    let area = there().filter_map(|sample| extent?(sample)).map(|(_, high)| high);
    area.fold(traffic.max(limit), f64::max)
}

/// Puts the figures of parts of the range under the pointer.
fn hits(chart: &Chart, shared: &Shared<'_>, svg: &mut Svg, plot: &Plot, buckets: &Buckets) {
    let each = buckets.samples.len().div_ceil(PARTS);
    for (number, part) in buckets.samples.chunks(each).enumerate() {
        let there: Vec<Sample> = part.iter().flatten().copied().collect();
        let Some(sample) = merge(&there) else { continue };
        let from = (number * each) as f64 * buckets.step as f64;
        let to = from + (part.len() as u64 * buckets.step) as f64;
        let figures: Vec<String> = chart
            .lines(shared)
            .iter()
            .filter_map(|(name, line)| {
                (line.of)(&sample).map(|v| format!("{name} {} {}", figure(v), chart.unit))
            })
            .collect();
        let time = time_of_day((buckets.start + from as u64) * 1000);
        let (x, right) = (plot.x(from), plot.x(to));
        let title = format!("{time} UTC: {}", figures.join(", "));
        svg.titled_rect("hit", (x, AT.1), (right - x, SIZE.1), &title);
    }
}

/// Returns the labels of the axis at the bottom: whole times of day.
fn clock_marks(range: Range, buckets: &Buckets) -> Vec<(f64, String)> {
    let every = match range {
        Range::Minutes => 60,
        Range::Hour => 600,
        Range::Day => 4 * 3600,
    };
    let end = buckets.start + buckets.length();
    let first = buckets.start.next_multiple_of(every);
    (first..=end)
        .step_by(every as usize)
        .map(|at| ((at - buckets.start) as f64, time_of_day(at * 1000)[..5].to_owned()))
        // A label at the edge would be cut.
        .filter(|(x, _)| *x > 0.03 * (end - buckets.start) as f64)
        .filter(|(x, _)| *x < 0.97 * (end - buckets.start) as f64)
        .collect()
}

/// Describes a chart for readers who cannot see it.
fn describe(chart: &Chart, shared: &Shared<'_>, buckets: &Buckets) -> String {
    let parts: Vec<String> = chart
        .lines(shared)
        .iter()
        .map(|(name, line)| {
            let values: Vec<f64> = buckets.samples.iter().flatten().filter_map(line.of).collect();
            match values.last() {
                None => format!("{name}: not known"),
                Some(last) => {
                    let mean = values.iter().sum::<f64>() / values.len() as f64;
                    let most = values.iter().copied().fold(0.0, f64::max);
                    format!(
                        "{name}: {} {unit} on average, at most {}, {} at the end",
                        figure(mean),
                        figure(most),
                        figure(*last),
                        unit = chart.unit
                    )
                }
            }
        })
        .collect();
    format!("{}.", parts.join("; "))
}
