//! A claim of a source, and how it is tried here.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use forebay_lab::scenario::{Experiment, Scenario};
use forebay_units::Nanos;

use super::axes::axes;
use super::picture::Wanted;
use super::quantity::Quantity;
use crate::changed::Changed;
use crate::figure::Over;
use crate::judge::Criteria;

/// A claim of a source: its figures, and the experiment that tries them.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim's name, for files and the command line: that of its file.
    pub id: String,
    /// The claim in one line.
    pub title: String,
    /// The section and the figure of the source.
    pub source: String,
    /// How the claim is tried, and how that differs from the source; Markdown.
    pub about: String,
    /// The experiment that tries the claim.
    pub experiment: Experiment,
    /// The name of the experiment's file.
    pub scenario: String,
    /// The hash of the experiment's file.
    pub scenario_hash: String,
    /// The engines to try the claim on by name, and how much each runs.
    pub engines: BTreeMap<String, Extent>,
    /// The figures that are compared.
    pub figures: Vec<Figure>,
    /// The bands that were changed after a first result.
    pub changed: Vec<Changed>,
    /// The picture, if the claim has one.
    pub picture: Option<Wanted>,
}

impl Claim {
    /// How much `column`, one of [`COLUMNS`](super::COLUMNS), runs: as much as its engine. `None`
    /// if the claim does not name that engine.
    pub fn extent(&self, column: &str) -> Option<Extent> {
        self.engines.get(column.trim_end_matches("-kernel")).copied()
    }
}

/// How much of a claim's experiment an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of seeds; seeds count from 1.
    pub seeds: NonZeroU32,
    /// The measured time, where it is not the experiment's.
    pub duration: Option<Nanos>,
}

/// A figure that is compared with the source's.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The figure in words.
    pub what: String,
    /// The selection that the figure is taken from.
    pub of: Selection,
    /// The divisor of a ratio, or the other side of a comparison.
    pub to: Option<Selection>,
    /// How the figure is judged.
    pub criteria: Criteria,
    /// The reason for a difference, where it is known; Markdown.
    pub why: Option<String>,
}

impl Figure {
    /// The unit; empty for ratios.
    pub fn unit(&self) -> &'static str {
        let measure = self.of.quantity.measure;
        if self.to.is_some() && !measure.is_comparison() { "" } else { measure.unit() }
    }
}

/// Selects runs and a quantity of them, and says how cells are combined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The name of the arm.
    pub arm: String,
    /// The values that a cell may have on each of these axes.
    pub cells: BTreeMap<String, Vec<String>>,
    /// The quantity of each run.
    pub quantity: Quantity,
    /// How several cells are combined.
    pub over: Over,
}

impl Selection {
    /// Whether the selection takes the runs of `cell`.
    pub fn takes(&self, cell: &Scenario) -> bool {
        let axes = axes(cell);
        self.cells.iter().all(|(axis, values)| axes.get(axis).is_some_and(|v| values.contains(v)))
    }
}
