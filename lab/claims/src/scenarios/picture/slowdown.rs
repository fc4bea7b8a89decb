//! Draws slowdowns as box plots.

use serde::{Deserialize, Serialize};

use super::{Part, Parts};
use forebay_lab::analysis::Slowdowns;
use forebay_lab::report::boxes::{self, Arm};
use forebay_lab::scenario::{Experiment, Scenario};
use forebay_picture::svg::Svg;

/// The caption of the picture.
pub(super) const CAPTION: &str = "Slowdown of requests by size; logarithmic axis. Box: the middle \
    half, with the median; whiskers: 10th to 90th percentile; dot: 99th. Seeds are pooled.";

/// The slowdowns of all arms in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// The cell in words; empty if there is only one cell.
    cell: String,
    arms: Vec<Arm>,
}

impl Slowdown {
    pub(super) fn all(parts: Parts, experiment: &Experiment, strong: Option<&str>) -> Vec<Self> {
        let one = experiment.cells.len() == 1;
        let name = |cell: &Scenario| if one { String::new() } else { cell.cell() };
        let cells = experiment.cells.iter();
        let mut all: Vec<Self> =
            cells.map(|cell| Self { cell: name(cell), arms: Vec::new() }).collect();
        for ((cell, arm), parts) in parts {
            let own =
                |part| if let Part::Slowdown(slowdowns) = part { Some(slowdowns) } else { None };
            let seeds: Vec<_> = parts.into_iter().filter_map(own).collect();
            let slowdowns = Slowdowns::pooled(seeds.iter()).map(|s| s.into());
            let name = experiment.cells[cell].arms[arm].name.clone();
            let strong = strong == Some(name.as_str());
            all[cell].arms.push(Arm { name, slowdowns, strong });
        }
        all
    }
}

pub(super) fn panels(cells: &[Slowdown]) -> Vec<(String, Svg)> {
    let numbered = cells.iter().enumerate();
    let panels = numbered.flat_map(|(i, cell)| {
        boxes::panels(&format!("s{i}-"), &cell.arms).into_iter().map(move |(size, svg)| {
            let separator = if cell.cell.is_empty() { "" } else { ": " };
            (format!("{}{separator}{size}", cell.cell), svg)
        })
    });
    panels.collect()
}
