//! A plot in a picture: axes from zero, curves, and their names at the right.

use crate::axis::linear_ticks;
use crate::number::setting;
use crate::svg::{Anchor, Path, Svg};

/// The least distance between two names.
const LINE: f64 = 16.0;

/// A plot with its place in the picture and the range of its axes.
#[derive(Debug)]
pub struct Plot {
    /// The corner at the left and top.
    at: (f64, f64),
    size: (f64, f64),
    /// The end of the axis at the bottom.
    reach: f64,
    ticks: Vec<f64>,
}

impl Plot {
    /// Creates a plot whose left axis has about five ticks and reaches at least `highest`.
    pub fn new(at: (f64, f64), size: (f64, f64), reach: f64, highest: f64) -> Self {
        Self { at, size, reach: reach.max(1e-9), ticks: linear_ticks(highest, 5) }
    }

    /// Returns the place of a value on the axis at the bottom.
    pub fn x(&self, value: f64) -> f64 {
        self.at.0 + self.size.0 * (value / self.reach).clamp(0.0, 1.0)
    }

    /// Returns the place of a value on the axis at the left.
    pub fn y(&self, value: f64) -> f64 {
        let top = self.ticks.last().copied().unwrap_or(1.0);
        self.at.1 + self.size.1 * (1.0 - (value / top).clamp(0.0, 1.0))
    }

    /// Returns the place of the axis at the bottom.
    pub fn bottom(&self) -> f64 {
        self.at.1 + self.size.1
    }

    /// Draws the horizontal lines with their values, and the unit above them.
    pub fn rule(&self, svg: &mut Svg, unit: &str) {
        let (left, right) = (self.at.0, self.at.0 + self.size.0);
        for &value in &self.ticks {
            let y = self.y(value);
            svg.line(if value == 0.0 { "axis" } else { "grid" }, (left, y), (right, y));
            svg.text("tick", (left - 6.0, y + 4.0), Anchor::End, &setting(value));
        }
        svg.text("tick", (left - 6.0, self.at.1 - 8.0), Anchor::End, unit);
    }

    /// Draws the values of the axis at the bottom, the first with the unit.
    pub fn scale(&self, svg: &mut Svg, unit: &str) {
        for value in
            linear_ticks(self.reach, 6).into_iter().filter(|v| *v <= self.reach * 1.000_001)
        {
            let unit = if value == 0.0 { unit } else { "" };
            let says = format!("{}{unit}", setting(value));
            svg.text("tick", (self.x(value), self.bottom() + 16.0), Anchor::Middle, &says);
        }
    }

    /// Draws texts below the axis at the bottom, each at a place of it.
    pub fn marks(&self, svg: &mut Svg, marks: &[(f64, String)]) {
        for (value, text) in marks {
            let at = (self.x(*value), self.bottom() + 16.0);
            svg.line("axis", (at.0, self.bottom()), (at.0, self.bottom() + 4.0));
            svg.text("tick", at, Anchor::Middle, text);
        }
    }

    /// Fills the area between the lowest and the highest value of each place of the axis at the
    /// bottom, with gaps where there is none.
    pub fn area(&self, svg: &mut Svg, class: &str, points: &[Option<(f64, f64, f64)>]) {
        let mut path = Path::default();
        for stretch in points.split(Option::is_none) {
            let there = stretch.iter().flatten();
            let top = there.clone().map(|(x, _, high)| (self.x(*x), self.y(*high)));
            let back = there.rev().map(|(x, low, _)| (self.x(*x), self.y(*low)));
            let outline = top.chain(back);
            path = if stretch.is_empty() { path } else { path.through(outline).close() };
        }
        svg.path(&format!("band {class}"), &path);
    }

    /// Draws a line through `points`, with gaps where there is none.
    pub fn curve(&self, svg: &mut Svg, class: &str, points: &[Option<(f64, f64)>]) {
        let mut path = Path::default();
        for stretch in points.split(Option::is_none) {
            let drawn = stretch.iter().flatten().map(|(x, y)| (self.x(*x), self.y(*y)));
            path = path.through(drawn);
        }
        svg.path(&format!("curve {class}"), &path);
    }

    /// Draws the names of curves at the right, each near the end of its curve: class, name and last
    /// value.
    pub fn names(&self, svg: &mut Svg, names: &[(&str, &str, f64)]) {
        let mut placed: Vec<_> =
            names.iter().map(|(c, n, end)| (self.y(*end) + 4.0, c, n)).collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ceiling = self.at.1 + 4.0;
        let count = placed.len();
        for (i, (y, class, name)) in placed.into_iter().enumerate() {
            let below = (count - 1 - i) as f64 * LINE;
            let y = y.min(self.bottom() - below).max(ceiling);
            ceiling = y + LINE;
            let at = (self.at.0 + self.size.0 + 8.0, y);
            svg.text(&format!("name {class}"), at, Anchor::Start, name);
        }
    }
}

/// Returns the style class of a curve by its index; there are six.
pub fn class(index: usize) -> &'static str {
    ["c0", "c1", "c2", "c3", "c4", "c5"][index % 6]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_and_marks_are_at_their_places() {
        let plot = Plot::new((10.0, 10.0), (100.0, 50.0), 100.0, 10.0);
        let mut svg = Svg::new("a", "T", "D", 120.0, 80.0);
        plot.area(
            &mut svg,
            "x",
            &[Some((0.0, 0.0, 10.0)), Some((50.0, 5.0, 5.0)), None, Some((90.0, 0.0, 2.0))],
        );
        plot.marks(&mut svg, &[(50.0, "12:00".to_owned())]);
        let svg = svg.finish();
        // The axis at the left ends at 10, so 10 is at the top and 5 in the middle.
        let expected = "<path class=\"band x\" d=\"M10 10L10 10L60 35L60 35L10 60Z\
                        M100 50L100 50L100 60Z\"/>";
        assert!(svg.contains(expected), "{svg}");
        assert!(
            svg.contains("<text class=\"tick\" x=\"60\" y=\"76\" text-anchor=\"middle\">12:00")
        );
    }
}
