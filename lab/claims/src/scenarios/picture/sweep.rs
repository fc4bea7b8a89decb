//! Draws a figure of each arm along an axis of the grid.

use serde::{Deserialize, Serialize};

use super::plot::{Plot, class};
use forebay_picture::svg::{Anchor, Svg};

/// The caption of the picture.
pub(super) const CAPTION: &str =
    "Each arm along the axis. Several cells with the same value on the axis are averaged.";

/// The figures of all arms along an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The figures in words.
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) axis: String,
    /// The values on the axis, in the experiment's order.
    pub(crate) along: Vec<String>,
    pub(crate) arms: Vec<Line>,
}

/// The figures of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub(crate) arm: String,
    /// A figure for each value on the axis.
    pub(crate) values: Vec<Option<f64>>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const RIGHT: f64 = 150.0;

impl Sweep {
    pub(super) fn panel(&self) -> (String, Svg) {
        let title = format!("{} along {}", self.what, self.axis);
        let mut svg = Svg::new("w", &title, CAPTION, WIDTH, HEIGHT);
        let values = self.arms.iter().flat_map(|a| &a.values).flatten();
        let highest = values.copied().fold(0.0, f64::max);
        let size = (WIDTH - 50.0 - RIGHT, HEIGHT - 74.0);
        let plot = Plot::new((50.0, 24.0), size, self.along.len() as f64, highest);
        plot.rule(&mut svg, &self.unit);
        let at = |i: usize| i as f64 + 0.5;
        for (i, value) in self.along.iter().enumerate() {
            svg.text("tick", (plot.x(at(i)), plot.bottom() + 16.0), Anchor::Middle, value);
        }
        let middle = (plot.x(at(0)) + plot.x(at(self.along.len().saturating_sub(1)))) / 2.0;
        svg.text("tick", (middle, plot.bottom() + 36.0), Anchor::Middle, &self.axis);
        let mut names = Vec::new();
        for (n, line) in self.arms.iter().enumerate() {
            let points: Vec<_> =
                line.values.iter().enumerate().map(|(i, v)| v.map(|v| (at(i), v))).collect();
            plot.curve(&mut svg, class(n), &points);
            for (x, y) in points.iter().flatten() {
                svg.circle(&format!("dot {}", class(n)), (plot.x(*x), plot.y(*y)), 3.0);
            }
            if let Some((_, end)) = points.iter().rev().flatten().next() {
                names.push((class(n), line.arm.as_str(), *end));
            }
        }
        plot.names(&mut svg, &names);
        (title, svg)
    }
}
