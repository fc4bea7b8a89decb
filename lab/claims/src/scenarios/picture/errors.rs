//! Draws the distributions of the errors of the sendbox's estimates.

use serde::{Deserialize, Serialize};

use super::plot::Plot;
use forebay_lab::analysis::{EstimateErrors, Sorted, rounded};
use forebay_picture::number::figure;
use forebay_picture::svg::{Anchor, Svg};

/// The caption of the picture.
pub(super) const CAPTION: &str = "The share of new estimates whose error is no larger, over all \
    runs. The line marks 80 %. The axes end at the 99th percentile.";

/// The percentiles 0 to 100 of the magnitudes of errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    rtt_ms: Vec<f64>,
    receive_rate_mbps: Vec<f64>,
}

impl Errors {
    pub(super) fn of(runs: &[EstimateErrors]) -> Self {
        let pooled = EstimateErrors::pooled(runs.iter());
        let percentiles = |errors: &Sorted| -> Vec<f64> {
            let errors = errors.magnitudes();
            (0..=100).filter_map(|p| errors.percentile(p)).map(|v| rounded(v, 4)).collect()
        };
        Self {
            rtt_ms: percentiles(&pooled.rtt.new),
            receive_rate_mbps: percentiles(&pooled.receive_rate.new),
        }
    }

    pub(super) fn panels(&self) -> Vec<(String, Svg)> {
        [
            ("Round-trip time", " ms", &self.rtt_ms),
            ("Receive rate", " Mbit/s", &self.receive_rate_mbps),
        ]
        .into_iter()
        .enumerate()
        .map(|(i, (name, unit, values))| (name.to_owned(), panel(i, name, unit, values)))
        .collect()
    }
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 230.0;

fn panel(index: usize, name: &str, unit: &str, percentiles: &[f64]) -> Svg {
    let title = format!("{name}: distribution of the estimates' errors");
    let at = |percent: usize| percentiles.get(percent).copied();
    let says =
        at(80).map_or("No estimates.".to_owned(), |v| format!("80 % within {}{unit}.", figure(v)));
    let mut svg = Svg::new(&format!("e{index}"), &title, &says, WIDTH, HEIGHT);
    let reach = at(99).unwrap_or(1.0);
    let plot = Plot::new((44.0, 24.0), (WIDTH - 60.0, HEIGHT - 54.0), reach, 100.0);
    plot.rule(&mut svg, "%");
    plot.scale(&mut svg, unit);
    let points: Vec<_> =
        percentiles.iter().take(100).enumerate().map(|(p, v)| Some((*v, p as f64))).collect();
    plot.curve(&mut svg, "sendbox", &points);
    if let Some(v) = at(80) {
        svg.line("phase", (plot.x(v), plot.y(80.0)), (plot.x(v), plot.bottom()));
        let label = (plot.x(v) + 6.0, plot.y(74.0));
        svg.text("tick", label, Anchor::Start, &format!("80 %: {}{unit}", figure(v)));
    }
    svg
}
