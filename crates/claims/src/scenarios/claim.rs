//! What a source claims, and how it is tried here.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use forebay_units::Nanos;

use super::axes::axes;
use super::picture::Wanted;
use super::quantity::Quantity;
use crate::band::Band;
use crate::figure::Over;
use forebay_lab::scenario::{Experiment, Scenario};

/// A claim of a source: figures that it has, and the experiment that they are tried by.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name, for files and the command line: that of its file.
    pub id: String,
    /// What is claimed, in a line.
    pub title: String,
    /// Where: section and figure.
    pub source: String,
    /// How it is tried, and how that differs from what the source did; Markdown.
    pub about: String,
    /// The experiment.
    pub experiment: Experiment,
    /// The hash of what the experiment was read from.
    pub scenario_hash: String,
    /// The engines to try it on, by name, with how much of it.
    pub engines: BTreeMap<String, Extent>,
    /// What is compared.
    pub figures: Vec<Figure>,
    /// What is drawn.
    pub picture: Option<Wanted>,
}

impl Claim {
    /// How much of it is tried on `column`, one of [`COLUMNS`](super::COLUMNS), if it is: as much as on its engine.
    pub fn extent(&self, column: &str) -> Option<Extent> {
        self.engines.get(column.trim_end_matches("-kernel")).copied()
    }
}

/// How much of a claim's experiment an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// With seeds from 1 to this.
    pub seeds: NonZeroU32,
    /// How long is measured, where that is not as the experiment says.
    pub duration: Option<Nanos>,
}

/// A figure of the source's, to be compared.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is, in words.
    pub what: String,
    /// What it is taken from.
    pub of: Selection,
    /// What it is divided by, if it is a ratio, or held against, if it is a comparison.
    pub to: Option<Selection>,
    /// The source's; `None` where it says so in words only.
    pub source: Option<f64>,
    /// Where ours must lie.
    pub band: Band,
    /// Why ours differs, where that is known; Markdown.
    pub why: Option<String>,
}

impl Figure {
    /// Its unit; empty for ratios.
    pub fn unit(&self) -> &'static str {
        let measure = self.of.quantity.measure;
        if self.to.is_some() && !measure.is_comparison() { "" } else { measure.unit() }
    }
}

/// Which runs, what of them, and how cells are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The arm.
    pub arm: String,
    /// On these axes the cell has one of these values.
    pub cells: BTreeMap<String, Vec<String>>,
    /// What of each run.
    pub quantity: Quantity,
    /// Of several cells.
    pub over: Over,
}

impl Selection {
    /// Whether it takes the runs of `cell`.
    pub fn takes(&self, cell: &Scenario) -> bool {
        let axes = axes(cell);
        self.cells.iter().all(|(axis, values)| axes.get(axis).is_some_and(|v| values.contains(v)))
    }
}
