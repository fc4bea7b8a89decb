//! Box plots of slowdowns by size class (after EuroSys '21, figure 9).

use maud::Markup;

use super::axis::LogAxis;
use super::markup;
use super::number::{count, figure};
use super::svg::{Anchor, Svg};
use super::table::{Column, Row, Table};
use crate::analysis::{ByClass, Slowdowns, rounded};

use serde::{Deserialize, Serialize};

/// The caption of the picture.
pub const CAPTION: &str = "Slowdown is a request's completion time over the time it would take on \
    the empty path, so 1 is ideal; the axis is logarithmic. Box: the middle half of requests, with \
    the median; whiskers: 10th to 90th percentile; dot: 99th. Fewer than 20 requests are a dot \
    each, with the median. Requests unfinished at the end count with the time they had taken by \
    then, so figures may be too low, never too high.";

/// The height without the names below.
const HEIGHT: f64 = 272.0;
const LEFT: f64 = 36.0;
const TOP: f64 = 14.0;
/// The room below the boxes for the number of requests.
const BOTTOM: f64 = 24.0;
/// The height of a line of a name.
const LINE: f64 = 14.0;
/// The width of one box with its labels.
const SLOT: f64 = 76.0;
const BOX: f64 = 26.0;
/// The smallest width of a panel in boxes.
const LEAST_SLOTS: usize = 4;
/// The largest number of letters of a name that fit under a box on one line.
const LETTERS: usize = 9;
/// The number of values from which a box is drawn: its 99th percentile is one of them at least.
const FEW: usize = 20;

/// The slowdowns of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The arm's name.
    pub name: String,
    /// The slowdowns by size class.
    pub slowdowns: ByClass<Summed>,
    /// Whether the arm is emphasised.
    pub strong: bool,
}

/// The slowdowns of one class as they are shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summed {
    /// The slowdowns at [`PERCENTILES`]; empty without requests.
    at: Vec<f64>,
    /// The slowdowns themselves, if there are fewer than [`FEW`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    each: Vec<f64>,
    count: u64,
    unfinished: u64,
}

impl From<&Slowdowns> for Summed {
    fn from(slowdowns: &Slowdowns) -> Self {
        let at = PERCENTILES.iter().filter_map(|p| slowdowns.values.percentile(*p));
        let values = slowdowns.values.values();
        let each = if values.len() < FEW { values } else { &[] };
        Self {
            each: each.iter().map(|v| rounded(*v, 4)).collect(),
            at: at.map(|v| rounded(v, 4)).collect(),
            count: slowdowns.values.len() as u64,
            unfinished: slowdowns.unfinished,
        }
    }
}

impl Summed {
    /// The slowdown at one of [`PERCENTILES`].
    fn percentile(&self, percent: u8) -> Option<f64> {
        let index = PERCENTILES.iter().position(|p| *p == percent)?;
        self.at.get(index).copied()
    }
}

type ClassOf = fn(&ByClass<Summed>) -> &Summed;

const CLASSES: [(&str, ClassOf); 3] =
    [("Up to 10 kB", |c| &c.small), ("10 kB to 1 MB", |c| &c.medium), ("Over 1 MB", |c| &c.large)];

/// The percentiles in the table behind the picture; the picture shows all of them but the maximum.
const PERCENTILES: [u8; 7] = [10, 25, 50, 75, 90, 99, 100];

/// Adjacent panels, one per class, on the same axis. `id` must be unique on the page.
pub fn figures(id: &str, arms: &[Arm], caption: &str) -> Markup {
    let panels = panels(id, arms).into_iter().map(|(name, svg)| (name.to_owned(), svg.finish()));
    let table = table(arms).html("Slowdown by size and percentile, as a multiple of the ideal");
    markup::figure("panels boxes", panels, caption, table)
}

/// The panels by name, all on the same axis.
pub fn panels(id: &str, arms: &[Arm]) -> Vec<(&'static str, Svg)> {
    let tails =
        arms.iter().flat_map(|a| CLASSES.map(|(_, class)| class(&a.slowdowns).percentile(99)));
    let axis = LogAxis::up_to(tails.flatten().fold(1.0, f64::max));
    let classes = CLASSES.iter().enumerate();
    classes
        .map(|(i, (name, class))| (*name, panel(&format!("{id}{i}"), name, *class, arms, &axis)))
        .collect()
}

fn panel(id: &str, name: &str, class: ClassOf, arms: &[Arm], axis: &LogAxis) -> Svg {
    // A page gives every panel the same width, so a panel with few boxes would become too large.
    let slots = arms.len().max(LEAST_SLOTS) as f64;
    let width = LEFT + SLOT * slots + 4.0;
    let names: Vec<Vec<String>> = arms.iter().map(|arm| lines(&arm.name)).collect();
    let names_high = LINE * names.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let words: Vec<String> = arms
        .iter()
        .map(|a| {
            let slowdowns = class(&a.slowdowns);
            match (slowdowns.percentile(50), slowdowns.percentile(99)) {
                (Some(p50), Some(p99)) => {
                    format!("{}: median {}, 99th percentile {}", a.name, figure(p50), figure(p99))
                }
                _ => format!("{}: no requests", a.name),
            }
        })
        .collect();
    let title = format!("Slowdown of requests, {name}");
    let mut svg =
        Svg::new(id, &title, &format!("{}.", words.join(". ")), width, HEIGHT + names_high);
    let y = |value| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - axis.position(value));
    for &value in &axis.ticks {
        let line = if value == 1.0 { "axis" } else { "grid" };
        svg.line(line, (LEFT, y(value)), (width - 4.0, y(value)));
        svg.text("tick", (LEFT - 6.0, y(value) + 4.0), Anchor::End, &format!("{value}"));
    }
    for (i, arm) in arms.iter().enumerate() {
        let centre = LEFT + SLOT * (i as f64 + 0.5 + (slots - arms.len() as f64) / 2.0);
        let slowdowns = class(&arm.slowdowns);
        draw(&mut svg, slowdowns, centre - 10.0, y, arm.strong);
        let label = if arm.strong { "name strong" } else { "name" };
        for (number, line) in names[i].iter().enumerate() {
            let at = HEIGHT - 6.0 + LINE * number as f64;
            svg.text(label, (centre, at), Anchor::Middle, line);
        }
        let n = format!("n = {}", count(slowdowns.count));
        svg.text("tick", (centre, HEIGHT + names_high - 4.0), Anchor::Middle, &n);
    }
    svg
}

/// A box from p25 to p75 with the median, whiskers at p10 and p90, and a dot at p99.
fn draw(svg: &mut Svg, slowdowns: &Summed, x: f64, y: impl Fn(f64) -> f64, strong: bool) {
    let at = |p| slowdowns.percentile(p).map(&y);
    let all = [10, 25, 50, 75, 90, 99].map(at);
    let [Some(p10), Some(p25), Some(p50), Some(p75), Some(p90), Some(p99)] = all else {
        return;
    };
    let class = |part: &str| if strong { format!("{part} strong") } else { part.to_owned() };
    let value = |p| slowdowns.percentile(p).map(figure).unwrap_or_default();
    let median = |svg: &mut Svg| {
        svg.line(&class("median"), (x - BOX / 2.0, p50), (x + BOX / 2.0, p50));
        svg.text(&class("value"), (x + BOX / 2.0 + 4.0, p50 + 4.0), Anchor::Start, &value(50));
    };
    if !slowdowns.each.is_empty() {
        slowdowns.each.iter().for_each(|v| svg.circle(&class("dot"), (x, y(*v)), 3.0));
        return median(svg);
    }
    svg.line(&class("whisker"), (x, p10), (x, p25));
    svg.line(&class("whisker"), (x, p75), (x, p90));
    for end in [p10, p90] {
        svg.line(&class("whisker"), (x - 6.0, end), (x + 6.0, end));
    }
    svg.rect(&class("box"), (x - BOX / 2.0, p75), (BOX, (p25 - p75).max(1.0)));
    median(svg);
    svg.circle(&class("dot"), (x, p99), 3.0);
    // Close above the whisker or the median's number there is no room for another number.
    if p90 - p99 > 8.0 && p50 - p99 > 16.0 {
        svg.text("tick", (x + 7.0, p99 + 4.0), Anchor::Start, &value(99));
    }
}

/// Splits a name into lines that fit under a box, at gaps where there are some.
fn lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive([' ', '_', '-']) {
        let line = lines.last().map_or(0, |l| l.chars().count());
        if line > 0 && line + word.trim_end().chars().count() > LETTERS {
            lines.push(String::new());
        }
        for letter in word.chars() {
            if lines.last().is_some_and(|l| letter != ' ' && l.chars().count() >= LETTERS) {
                lines.push(String::new());
            }
            if let Some(last) = lines.last_mut() {
                last.push(letter);
            }
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

fn table(arms: &[Arm]) -> Table {
    let mut columns: Vec<Column> =
        PERCENTILES.iter().map(|p| Column::new("percentile", &percentile(*p))).collect();
    columns.extend(["count", "unfinished"].map(|n| Column::new("requests", n)));
    let mut rows = Vec::new();
    for (name, class) in CLASSES {
        for arm in arms {
            let s = class(&arm.slowdowns);
            let mut cells: Vec<String> = PERCENTILES
                .iter()
                .map(|p| s.percentile(*p).map_or(String::new(), figure))
                .collect();
            cells.extend([s.count, s.unfinished].map(count));
            let label = format!("{name}, {}", arm.name);
            rows.push(Row { label, cells, strong: arm.strong });
        }
    }
    Table { corner: "size, arm".to_owned(), columns, rows }
}

fn percentile(p: u8) -> String {
    if p == 100 { "max".to_owned() } else { format!("p{p}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_wrapped_and_not_cut() {
        let wrapped = |name| lines(name).join("|");
        assert_eq!(wrapped("Status quo"), "Status|quo");
        assert_eq!(wrapped("In-network SFQ"), "In-|network|SFQ");
        assert_eq!(wrapped("forebay_sfq"), "forebay_|sfq");
        assert_eq!(wrapped("in_network_sfq"), "in_|network_|sfq");
        assert_eq!(wrapped("fifo"), "fifo");
        assert_eq!(wrapped("averyveryverylongname"), "averyvery|verylongn|ame");
        assert_eq!(wrapped(""), "");
    }

    #[test]
    fn few_requests_are_dots() {
        let draw_all = |n: u32| {
            let values = (1..=n).map(f64::from).collect();
            let mut svg = Svg::new("b", "", "", 100.0, 100.0);
            let slowdowns = Summed::from(&Slowdowns { values, unfinished: 0 });
            draw(&mut svg, &slowdowns, 50.0, |v| 100.0 - v, false);
            svg.finish()
        };
        let (six, twenty) = (draw_all(6), draw_all(20));
        assert!(six.matches("<circle").count() == 6 && !six.contains("<rect"), "{six}");
        assert!(six.contains("class=\"median\"") && six.contains(">3.00</text>"));
        assert!(twenty.matches("<circle").count() == 1 && twenty.contains("<rect"));
    }

    #[test]
    fn a_box_by_hand() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let slowdowns = Slowdowns { values: values.into_iter().collect(), unfinished: 0 };
        let mut svg = Svg::new("b", "", "", 100.0, 100.0);
        draw(&mut svg, &Summed::from(&slowdowns), 50.0, |v| 100.0 - v, false);
        let svg = svg.finish();
        assert!(
            svg.contains("<rect class=\"box\" x=\"37\" y=\"25\" width=\"26\" height=\"50\"/>"),
            "{svg}"
        );
        assert!(svg.contains("<path class=\"median\" d=\"M37 50L63 50\"/>"));
        assert!(svg.contains("<circle class=\"dot\" cx=\"50\" cy=\"1\" r=\"3\"/>"));
        assert!(svg.contains(">50.0</text>"));
    }

    #[test]
    fn no_requests_no_box() {
        let arm = Arm { name: "x".to_owned(), slowdowns: ByClass::default(), strong: false };
        let html = figures("b", &[arm], "").into_string();
        assert!(html.contains("x: no requests.") && !html.contains("<rect"));
    }
}
