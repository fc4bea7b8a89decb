//! Draws a claim: from runs to a stored picture, and from that to an SVG file.

mod errors;
mod slowdown;
mod sweep;
mod timeline;

use std::collections::BTreeMap;

use forebay_picture::plot;
use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::quantity::{Measure, Quantity};
use super::sizes::Sizes;
use forebay_lab::analysis::{ByClass, EstimateErrors, Slowdowns};
use forebay_lab::engine::Job;
use forebay_lab::results::Run;
use forebay_lab::scenario::Experiment;
use forebay_picture::svg::sheet;

pub use errors::Errors;
pub use slowdown::Slowdown;
pub use sweep::{Line as SweepLine, Sweep};
pub use timeline::Timeline;

/// The picture that a claim asks for.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Box plots of slowdowns by size class, in each cell.
    Slowdown {
        /// The arm to highlight.
        strong: Option<String>,
    },
    /// Queues and rates over time, in the first run of each arm.
    Timeline,
    /// The distributions of the errors of estimates, over all runs.
    Errors,
    /// Figures of each arm along an axis of the grid.
    Sweep {
        /// The axis of the grid.
        axis: String,
        /// A second axis with a plot for each value.
        by: Option<String>,
        /// The quantities of each run, with a line each.
        quantities: Vec<Quantity>,
    },
}

impl Wanted {
    /// The quantities of each run that the picture needs besides its own parts.
    pub(super) fn quantities(&self) -> &[Quantity] {
        match self {
            Self::Sweep { quantities, .. } => quantities,
            _ => &[],
        }
    }
}

/// The table `[picture]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    kind: Kind,
    pub(super) strong: Option<String>,
    axis: Option<String>,
    by: Option<String>,
    /// The traffics that have a line each.
    pub(super) lines: Option<Vec<String>>,
    pub(super) measure: Option<Measure>,
    pub(super) at: Option<String>,
    pub(super) traffic: Option<String>,
    pub(super) size: Option<Sizes>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Slowdown,
    Timeline,
    Errors,
    Sweep,
}

impl Table {
    /// Checks the table against the experiment; `of` is the quantity that it takes from a run.
    pub(super) fn wanted(
        &self,
        of: Option<Quantity>,
        experiment: &Experiment,
    ) -> Result<Wanted, String> {
        let sweeps = self.axis.is_some() || self.by.is_some() || self.lines.is_some();
        if self.kind != Kind::Sweep && (of.is_some() || sweeps) {
            let what = "`axis`, `by`, `lines` and `measure` go with kind = \"sweep\"";
            return Err(what.to_owned());
        }
        match (self.kind, of, &self.axis) {
            (Kind::Slowdown, ..) => Ok(Wanted::Slowdown { strong: self.strong.clone() }),
            (Kind::Timeline, ..) => Ok(Wanted::Timeline),
            (Kind::Errors, ..) => Ok(Wanted::Errors),
            (Kind::Sweep, Some(quantity), Some(axis)) => {
                for axis in std::iter::once(axis).chain(&self.by) {
                    let has = |c| axes(c).contains_key(axis);
                    if !experiment.cells.iter().all(has) {
                        return Err(format!("the scenario's grid has no axis \"{axis}\""));
                    }
                }
                let own = |traffic: &String| Quantity {
                    traffic: vec![traffic.clone()],
                    ..quantity.clone()
                };
                let quantities = match &self.lines {
                    Some(lines) => lines.iter().map(own).collect(),
                    None => vec![quantity],
                };
                Ok(Wanted::Sweep { axis: axis.clone(), by: self.by.clone(), quantities })
            }
            (Kind::Sweep, ..) => Err("a sweep needs `axis` and `measure`".to_owned()),
        }
    }
}

/// The part of the claim's picture that one run gives.
pub(super) enum Part {
    Slowdown(ByClass<Slowdowns>),
    Timeline(Timeline),
    Errors(EstimateErrors),
}

impl Part {
    /// Extracts the part from `run`, which was `job` in the cell with the index `cell`. `None` if
    /// the picture does not need this run.
    pub(super) fn of(wanted: &Wanted, cell: usize, job: &Job<'_>, run: &Run) -> Option<Self> {
        match wanted {
            Wanted::Slowdown { .. } => Some(Self::Slowdown(Slowdowns::of(run))),
            // One run of each arm is enough.
            Wanted::Timeline if cell == 0 && job.seed == 1 => {
                Some(Self::Timeline(Timeline::of(run)))
            }
            Wanted::Timeline | Wanted::Sweep { .. } => None,
            Wanted::Errors => Some(Self::Errors(EstimateErrors::of(run))),
        }
    }
}

/// A picture as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Picture {
    /// Slowdowns of each cell.
    Slowdown(Vec<Slowdown>),
    /// Queues and rates of each arm over time.
    Timeline(Vec<Timeline>),
    /// Errors of estimates over all runs.
    Errors(Errors),
    /// Figures of each arm along the axis.
    Sweep(Sweep),
    /// Figures along the axis, with a plot for each value of another axis.
    Panels(Vec<Sweep>),
}

/// The parts of all seeds, by the indices of cell and arm.
pub(super) type Parts = BTreeMap<(usize, usize), Vec<Part>>;

impl Picture {
    /// Puts the parts of all runs of `experiment` together; `None` for a sweep, which needs
    /// figures.
    pub(super) fn of(wanted: &Wanted, parts: Parts, experiment: &Experiment) -> Option<Self> {
        match wanted {
            Wanted::Slowdown { strong } => {
                Some(Self::Slowdown(Slowdown::all(parts, experiment, strong.as_deref())))
            }
            Wanted::Timeline => {
                let parts = parts.into_values().flatten();
                let own = |part| if let Part::Timeline(t) = part { Some(t) } else { None };
                Some(Self::Timeline(parts.filter_map(own).collect()))
            }
            Wanted::Errors => {
                let parts = parts.into_values().flatten();
                let own = |part| if let Part::Errors(e) = part { Some(e) } else { None };
                let all: Vec<EstimateErrors> = parts.filter_map(own).collect();
                Some(Self::Errors(Errors::of(&all)))
            }
            Wanted::Sweep { .. } => None,
        }
    }

    /// Draws the picture as an SVG file.
    pub fn svg(&self, title: &str) -> String {
        match self {
            Self::Slowdown(cells) => sheet(title, slowdown::panels(cells), 3),
            Self::Timeline(arms) => sheet(title, timeline::panels(arms), 2),
            Self::Errors(errors) => sheet(title, errors.panels(), 2),
            Self::Sweep(sweep) => sheet(title, vec![sweep.panel()], 1),
            Self::Panels(sweeps) => sheet(title, sweeps.iter().map(Sweep::panel).collect(), 2),
        }
    }

    /// The caption of the picture.
    pub const fn caption(&self) -> &'static str {
        match self {
            Self::Slowdown(_) => slowdown::CAPTION,
            Self::Timeline(_) => timeline::CAPTION,
            Self::Errors(_) => errors::CAPTION,
            Self::Sweep(_) | Self::Panels(_) => sweep::CAPTION,
        }
    }
}
