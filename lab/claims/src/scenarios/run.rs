//! Runs a claim on an engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use forebay_outcome::{Commit, provenance};
use forebay_units::Nanos;

use super::claim::{Claim, Extent};
use super::extract::Extract;
use super::figures::{Taken, quantities};
use super::outcome::Outcome;
use super::picture::{Parts, Picture, Wanted};
use crate::figure::Tried;
use forebay_lab::engine::{Engine, Interrupt};
use forebay_lab::runner::{self, Options, RunError};
use forebay_lab::scenario::{Experiment, Traffic, TrafficKind};

/// Settings of a run that are not the claim's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings<'a> {
    /// The number of seeds, whatever the claim says.
    pub seeds: Option<u32>,
    /// Whether to run shortly with one seed, to see that it works.
    pub quick: bool,
    /// The largest number of runs at a time.
    pub jobs: Option<NonZeroUsize>,
    /// The directory for the records of each run; they are not kept if there is none.
    pub keep: Option<&'a Path>,
    /// A directory of the checkout whose commit is recorded.
    pub checkout: Option<&'a Path>,
}

/// The measured time of a quick run.
const QUICK: Nanos = Nanos::from_secs(10);

/// Runs `claim` on `engine`.
///
/// # Errors
/// If the engine cannot run it, a run fails, or it is interrupted.
pub fn run(
    claim: &Claim,
    engine: &dyn Engine,
    settings: Settings<'_>,
    interrupt: &Interrupt,
) -> Result<Outcome, RunError> {
    let extent = claim.extent(engine.name());
    let experiment = experiment(claim, extent, settings);
    let quantities = quantities(claim);
    let options = Options { keep: settings.keep, jobs: settings.jobs, ..Options::default() };
    let picture = claim.picture.as_ref();
    let (mut runs, result) =
        runner::run_for(engine, &experiment, options, interrupt, &|job, run| {
            Extract::of(&experiment, job, run, &quantities, picture)
        });
    result?;
    let drawn = picture.and_then(|wanted| draw(wanted, &mut runs, &experiment));
    let taken = Taken { experiment: &experiment, runs: &runs };
    let figures = claim.figures.iter().map(|figure| {
        let value = taken.figure(figure);
        Tried::new(&figure.what, figure.unit(), &figure.criteria, value)
    });
    let longest = experiment.cells.iter().map(|c| c.duration).max().unwrap_or_default();
    Ok(Outcome {
        claim: claim.id.clone(),
        engine: engine.name().to_owned(),
        date: provenance::today(),
        commit: settings.checkout.and_then(Commit::of_checkout),
        machine: provenance::machine(),
        seeds: experiment.seeds.len() as u32,
        measured_s: longest.as_secs_f64(),
        runs: runs.len(),
        quick: settings.quick,
        scenario: claim.scenario_hash.clone(),
        figures: figures.collect(),
        picture: drawn,
    })
}

/// The claim's experiment, limited to what is run.
fn experiment(claim: &Claim, extent: Option<Extent>, settings: Settings<'_>) -> Experiment {
    let mut experiment = claim.experiment.clone();
    let usual = if settings.quick { 1 } else { extent.map_or(1, |e| e.seeds.get()) };
    experiment.seeds = (1..=u64::from(settings.seeds.unwrap_or(usual).max(1))).collect();
    let limit = extent.and_then(|e| e.duration);
    for cell in &mut experiment.cells {
        let own = limit.unwrap_or(cell.duration);
        let length = if settings.quick { own.min(QUICK) } else { own };
        if length != cell.duration {
            *cell = cell.clone().measured_for(length);
        }
        if settings.quick {
            cell.traffic.iter_mut().for_each(unbalance);
        }
    }
    experiment
}

/// Leaves the load to chance, since no draw of few requests comes to the offered load.
fn unbalance(traffic: &mut Traffic) {
    if let TrafficKind::Requests { requests, .. } = &mut traffic.kind {
        requests.balanced = false;
    }
}

fn draw(wanted: &Wanted, runs: &mut [Extract], experiment: &Experiment) -> Option<Picture> {
    if let Wanted::Sweep { axis, by, quantities } = wanted {
        return Some(Taken { experiment, runs }.sweep(axis, by.as_deref(), quantities));
    }
    let mut parts: Parts = BTreeMap::new();
    for run in runs {
        parts.entry((run.cell, run.arm)).or_default().extend(run.part.take());
    }
    Picture::of(wanted, parts, experiment)
}
