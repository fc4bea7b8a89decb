//! Runs cells and judges them.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use forebay_config::ConfigError;
use forebay_lab::engine::{Engine, Interrupt};
use forebay_lab::runner::{self, RunError};
use forebay_lab::scenario::{self, Experiment};
use serde::Serialize;

use crate::cell::Cell;
use crate::figures::{Figures, OfRun};
use crate::verdict::{Verdict, worse};

/// Cells that run before their runs are pooled and let go: it bounds what is in memory.
const TOGETHER: usize = 100;

/// Number of arms of a cell: without a box, the control run, the policy at the bottleneck, Forebay.
const ARMS: usize = 4;

/// How a map is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed that paths are drawn with.
    pub seed: u64,
    /// The seeds of each cell's first runs are 1 to this.
    pub seeds: u32,
    /// A cell whose first runs look worse runs again with this many further seeds, which decide;
    /// with 0 the first runs decide.
    pub confirm: u32,
    /// Whether Forebay's bundles have a guard.
    pub guard: bool,
    /// Where the scenarios of the cells are written.
    pub cells: PathBuf,
    /// At most this many runs side by side.
    pub jobs: Option<NonZeroUsize>,
}

/// A cell with its figures and the verdict on it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The path with its traffic.
    pub cell: Cell,
    /// The seeds of the runs that the figures are of.
    pub seeds: RangeInclusive<u32>,
    /// The figures without a box.
    pub status_quo: Figures,
    /// The figures of the control run: without a box, and with room for one packet more.
    pub control: Figures,
    /// The figures with the same policy at the bottleneck.
    pub in_network: Figures,
    /// The figures with Forebay.
    pub forebay: Figures,
    /// The verdict on Forebay.
    pub verdict: Verdict,
    /// Whether the control run is worse than the run without a box, which is chance.
    pub control_worse: bool,
    /// What the controllers decided in the first seed's run, in words.
    pub decisions: Vec<String>,
}

/// All cells of a map, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct HarmMap {
    /// The seed that paths were drawn with.
    pub seed: u64,
    /// How many seeds each cell was first run with.
    pub seeds: u32,
    /// How many further seeds decided on a cell that looked worse.
    pub confirm: u32,
    /// The engine's name.
    pub engine: String,
    /// The judged paths in the order of their numbers.
    pub cells: Vec<Judged>,
}

/// Why a map was not made.
#[derive(Debug, thiserror::Error)]
pub enum HarmError {
    /// A scenario could not be written.
    #[error("cannot write the cells to {}: {source}", path.display())]
    Write {
        /// The directory of the scenarios.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A scenario was refused: a fault of this crate.
    #[error(transparent)]
    Scenario(#[from] ConfigError),
    /// A run failed, or was interrupted.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs `cells` and judges them.
///
/// # Errors
/// If a scenario cannot be written or run, or if it was interrupted.
pub fn run(
    engine: &dyn Engine,
    cells: Vec<Cell>,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<HarmMap, HarmError> {
    let mut judged = Vec::with_capacity(cells.len());
    for part in cells.chunks(TOGETHER) {
        let mut part = look(engine, part, 1..=options.seeds, options, interrupt)?;
        if options.confirm > 0 {
            confirm(engine, &mut part, options, interrupt)?;
        }
        judged.extend(part);
    }
    let engine = engine.name().to_owned();
    let &Options { seed, seeds, confirm, .. } = options;
    Ok(HarmMap { seed, seeds, confirm, engine, cells: judged })
}

/// Judges the cells anew that look worse, by runs with further seeds.
///
/// A queue amplifies small differences, so that among many cells a few seeds find some that are
/// worse by chance, with Forebay and between two runs without a box alike. Both are repeated. The
/// first runs do not count again: they were chosen for what they show.
fn confirm(
    engine: &dyn Engine,
    part: &mut [Judged],
    options: &Options,
    interrupt: &Interrupt,
) -> Result<(), HarmError> {
    let mut doubtful: Vec<_> =
        part.iter_mut().filter(|c| c.verdict.is_worse() || c.control_worse).collect();
    let cells: Vec<_> = doubtful.iter().map(|c| c.cell.clone()).collect();
    let seeds = options.seeds + 1..=options.seeds + options.confirm;
    let again = look(engine, &cells, seeds, options, interrupt)?;
    for (first, again) in doubtful.iter_mut().zip(again) {
        **first = again;
    }
    Ok(())
}

/// Runs `cells` with each of `seeds` and judges them.
fn look(
    engine: &dyn Engine,
    cells: &[Cell],
    seeds: RangeInclusive<u32>,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Vec<Judged>, HarmError> {
    let write = |source| HarmError::Write { path: options.cells.clone(), source };
    fs::create_dir_all(&options.cells).map_err(write)?;
    let mut whole: Option<Experiment> = None;
    for cell in cells {
        let file = cell.write(&options.cells, seeds.clone(), options.guard).map_err(write)?;
        let one = scenario::load(&file)?;
        match &mut whole {
            None => whole = Some(one),
            Some(whole) => whole.cells.extend(one.cells),
        }
    }
    let Some(experiment) = whole else { return Ok(Vec::new()) };
    let run_options = runner::Options { jobs: options.jobs, ..runner::Options::default() };
    let (runs, result) =
        runner::run_for(engine, &experiment, run_options, interrupt, &|job, run| {
            OfRun::new(job.scenario, run)
        });
    result?;
    let each = ARMS * seeds.clone().count();
    Ok(cells.iter().zip(runs.chunks(each)).map(|(cell, runs)| judge(cell, &seeds, runs)).collect())
}

/// `runs` are those of one cell: four arms for each seed.
fn judge(cell: &Cell, seeds: &RangeInclusive<u32>, runs: &[OfRun]) -> Judged {
    let arm = |n: usize| -> Vec<OfRun> { runs.iter().skip(n).step_by(ARMS).cloned().collect() };
    let figures = |n| Figures::pooled(&arm(n));
    let (status_quo, control, in_network, forebay) =
        (figures(0), figures(1), figures(2), figures(3));
    Judged {
        verdict: Verdict::of([&status_quo, &control], &in_network, &forebay, cell.shared),
        control_worse: !worse(&status_quo, &control, cell.shared).is_empty(),
        decisions: runs.get(ARMS - 1).map(|run| run.decisions.clone()).unwrap_or_default(),
        cell: cell.clone(),
        seeds: seeds.clone(),
        status_quo,
        control,
        in_network,
        forebay,
    }
}

impl HarmMap {
    /// How many cells are worse than without a box.
    pub fn worse(&self) -> usize {
        self.cells.iter().filter(|c| c.verdict.is_worse()).count()
    }

    /// How many are worse than the run without a box, but not than the control run.
    pub fn worse_by_chance(&self) -> usize {
        self.cells.iter().filter(|c| c.verdict.is_worse_by_chance()).count()
    }

    /// In how many the control run is worse than the run without a box.
    pub fn control_worse(&self) -> usize {
        self.cells.iter().filter(|c| c.control_worse).count()
    }

    /// How many are worse because of the policy only.
    pub fn worse_by_policy(&self) -> usize {
        self.cells.iter().filter(|c| c.verdict.is_worse_by_policy()).count()
    }

    /// The cells that are worse, the worst first.
    pub fn worst_first(&self) -> Vec<&Judged> {
        let mut worse: Vec<_> = self.cells.iter().filter(|c| c.verdict.is_worse()).collect();
        worse.sort_by(|a, b| b.verdict.badness().total_cmp(&a.verdict.badness()));
        worse
    }

    /// The map as JSON: one object with a list of cells.
    ///
    /// # Errors
    /// Only if a figure cannot be written as JSON, which none is.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let cells: Vec<_> = self.cells.iter().map(CellJson::of).collect();
        serde_json::to_string_pretty(&MapJson {
            seed: self.seed,
            seeds: self.seeds,
            confirm: self.confirm,
            engine: &self.engine,
            worse: self.worse(),
            worse_by_chance: self.worse_by_chance(),
            worse_by_policy: self.worse_by_policy(),
            control_worse: self.control_worse(),
            cells,
        })
    }
}

#[derive(Serialize)]
struct MapJson<'a> {
    seed: u64,
    seeds: u32,
    confirm: u32,
    engine: &'a str,
    worse: usize,
    worse_by_chance: usize,
    worse_by_policy: usize,
    control_worse: usize,
    cells: Vec<CellJson<'a>>,
}

#[derive(Serialize)]
struct CellJson<'a> {
    number: u32,
    family: &'static str,
    file: String,
    what: String,
    seeds: [u32; 2],
    rate_mbps: f64,
    rtt_ms: f64,
    worse: bool,
    verdict: &'a Verdict,
    control_worse: bool,
    status_quo: &'a Figures,
    control: &'a Figures,
    in_network: &'a Figures,
    forebay: &'a Figures,
    decisions: &'a [String],
}

impl<'a> CellJson<'a> {
    fn of(judged: &'a Judged) -> Self {
        let Judged {
            cell,
            seeds,
            status_quo,
            control,
            in_network,
            forebay,
            verdict,
            control_worse,
            decisions,
        } = judged;
        Self {
            number: cell.number,
            family: cell.family.name(),
            file: cell.file_name(),
            what: cell.to_string(),
            seeds: [*seeds.start(), *seeds.end()],
            rate_mbps: cell.rate,
            rtt_ms: cell.rtt,
            worse: verdict.is_worse(),
            verdict,
            control_worse: *control_worse,
            status_quo,
            control,
            in_network,
            forebay,
            decisions,
        }
    }
}

impl Judged {
    /// Returns the bundle's goodput over that without a box.
    pub fn goodput(&self) -> f64 {
        self.forebay.goodput_mbps / self.status_quo.goodput_mbps.max(1e-9)
    }

    /// Returns the median slowdown over that without a box.
    pub fn median(&self) -> Option<f64> {
        Some(self.forebay.slowdown_p50? / self.status_quo.slowdown_p50?.max(1e-9))
    }

    /// Returns the 99th percentile of slowdowns over that without a box.
    pub fn tail(&self) -> Option<f64> {
        Some(self.forebay.slowdown_p99? / self.status_quo.slowdown_p99?.max(1e-9))
    }

    /// Returns the 99th percentile of waits at the bottleneck over that without a box.
    pub fn wait(&self) -> f64 {
        self.forebay.bottleneck_p99_ms / self.status_quo.bottleneck_p99_ms.max(0.1)
    }
}
