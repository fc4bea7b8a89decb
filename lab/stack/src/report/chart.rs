//! A chart of a figure against the number of flows or another setting on a logarithmic axis.

use forebay_picture::axis::linear_ticks;
use forebay_picture::number::{count, setting};
use forebay_picture::plot::class;
use forebay_picture::svg::{Anchor, Path, Svg};

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 40.0;
/// The height of a line of the legend.
const LEGEND: f64 = 18.0;

/// A curve: its name and its points.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart with a logarithmic axis at the bottom.
pub(super) struct Chart<'a> {
    /// A name that is unique on the page.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    /// The unit of the axis at the left.
    pub(super) unit: &'a str,
    /// What the axis at the bottom shows.
    pub(super) bottom: &'a str,
    /// Whether the axis at the left is logarithmic too.
    pub(super) log: bool,
    pub(super) curves: Vec<Curve>,
}

impl Chart<'_> {
    /// Draws the chart; `None` if no curve has two points.
    pub(super) fn draw(mut self) -> Option<String> {
        for curve in &mut self.curves {
            // A logarithmic axis has no place for zero.
            let has_place = |(x, y): &(f64, f64)| *x > 0.0 && (*y > 0.0 || !self.log);
            curve.points.retain(|point| has_place(point) && point.1.is_finite());
        }
        self.curves.retain(|curve| !curve.points.is_empty());
        if !self.curves.iter().any(|curve| curve.points.len() > 1) {
            return None;
        }
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let (low, high) = bounds(all().map(|point| point.0));
        let (bottom, top) = bounds(all().map(|point| point.1));
        let ticks = if self.log { powers(bottom, top) } else { linear_ticks(top, 5) };
        let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
        let legend = LEGEND * self.curves.len() as f64;
        let floor = HEIGHT - BOTTOM;
        let x = |value: f64| {
            let place = (value / low).ln() / (high / low).ln().max(1e-9);
            LEFT + 12.0 + place * (WIDTH - LEFT - RIGHT - 24.0)
        };
        let y = |value: f64| {
            let place = if self.log {
                (value / first).ln() / (last / first).ln().max(1e-9)
            } else {
                value / last
            };
            floor - place.clamp(0.0, 1.0) * (floor - TOP)
        };
        let desc = format!("{} against {}", self.title, self.bottom);
        let mut svg = Svg::new(self.id, self.title, &desc, WIDTH, HEIGHT + legend);
        for (i, tick) in ticks.iter().enumerate() {
            let kind = if i == 0 { "axis" } else { "grid" };
            svg.line(kind, (LEFT, y(*tick)), (WIDTH - RIGHT, y(*tick)));
            svg.text("tick", (LEFT - 6.0, y(*tick) + 4.0), Anchor::End, &label(*tick));
        }
        svg.text("tick", (LEFT - 6.0, TOP - 14.0), Anchor::End, self.unit);
        let marks = powers(low, high);
        for mark in marks.into_iter().filter(|m| *m >= low * 0.999 && *m <= high * 1.001) {
            svg.line("axis", (x(mark), floor), (x(mark), floor + 4.0));
            svg.text("tick", (x(mark), floor + 17.0), Anchor::Middle, &label(mark));
        }
        let middle = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, floor + 34.0);
        svg.text("tick", middle, Anchor::Middle, self.bottom);
        for (i, curve) in self.curves.iter().enumerate() {
            let places: Vec<_> = curve.points.iter().map(|(a, b)| (x(*a), y(*b))).collect();
            let line = Path::default().through(places.iter().copied());
            svg.path(&format!("curve {}", class(i)), &line);
            if places.len() < 20 {
                for place in places {
                    svg.circle(&format!("dot {}", class(i)), place, 3.0);
                }
            }
            let at = HEIGHT + 4.0 + LEGEND * i as f64;
            svg.line(&format!("curve {}", class(i)), (LEFT, at), (LEFT + 18.0, at));
            let name = format!("name {}", class(i));
            svg.text(&name, (LEFT + 26.0, at + 4.0), Anchor::Start, &curve.name);
        }
        Some(svg.finish())
    }
}

/// The least and the largest value.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), v| (low.min(v), high.max(v)))
}

/// The powers of ten around the range, or 1, 2 and 5 times these where that is more than a few.
fn powers(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let tens: Vec<f64> = (from..=to.max(from + 1)).map(|n| 10f64.powi(n)).collect();
    if tens.len() > 3 {
        return tens;
    }
    let fine = |ten: &f64| [1.0, 2.0, 5.0].map(|factor| factor * ten);
    let all: Vec<f64> = tens.iter().flat_map(fine).collect();
    let first = all.iter().rposition(|v| *v <= low * 1.000_001).unwrap_or(0);
    let last = all.iter().position(|v| *v >= high * 0.999_999).unwrap_or(all.len() - 1);
    all[first..=last.max(first + 1).min(all.len() - 1)].to_vec()
}

/// A number of an axis, as short as it can be.
fn label(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", setting(v / 1e6)),
        v if v >= 10_000.0 => format!("{} k", setting(v / 1e3)),
        v if v >= 1.0 && v.fract() == 0.0 => count(v as u64),
        v => setting(v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(log: bool, points: Vec<(f64, f64)>) -> Option<String> {
        let curves = vec![Curve { name: "<a>".to_owned(), points }];
        Chart { id: "c", title: "T", unit: "ms", bottom: "flows", log, curves }.draw()
    }

    #[test]
    fn a_chart_has_its_points_within_its_axes() {
        let svg = chart(true, vec![(100.0, 0.5), (1e5, 900.0), (10.0, 0.0)]).unwrap();
        // Zero has no place on a logarithmic axis, so that the axis begins at 100 flows.
        assert!(svg.contains("cx=\"76\"") && svg.contains("cx=\"452\""), "{svg}");
        assert!(svg.contains(">100 k</text>") && svg.contains(">0.1</text>"), "{svg}");
        assert!(svg.contains("&lt;a&gt;") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_single_point_has_no_chart() {
        assert!(chart(false, vec![(1.0, 1.0)]).is_none());
        assert!(chart(false, Vec::new()).is_none());
    }

    #[test]
    fn equal_values_are_drawn() {
        let svg = chart(false, vec![(5.0, 3.0), (5.0, 3.0)]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn axes_have_few_ticks() {
        assert_eq!(powers(100.0, 1e5), [100.0, 1e3, 1e4, 1e5]);
        assert_eq!(powers(3.0, 40.0), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(powers(7.0, 7.0).len(), 2);
    }
}
