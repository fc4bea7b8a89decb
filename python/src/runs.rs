//! Runs in the simulator, without Python's lock and with a view to Ctrl-C.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_lab::analysis::Analysis;
use forebay_lab::engine::{Engine, Interrupt, Job, Progress};
use forebay_lab::results::Run;
use forebay_lab::results::store::{self, StoreError};
use forebay_lab::scenario::Points;
use forebay_lab::sim_engine::Sim;
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::{run_error, scenario_error};
use crate::scenario::{Pair, settings};
use crate::table::Table;
use crate::tables;

/// How often a run looks at signals and reports its progress.
const TURN: Duration = Duration::from_millis(50);

/// The records of the runs of one experiment with one seed.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// The index of each run's cell.
    cells: Vec<u32>,
    /// The traffics of each run by index.
    traffics: Vec<Vec<String>>,
}

#[pymethods]
impl Runs {
    /// The number of runs.
    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// Returns the table of this name, with one Arrow batch for each run.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let make = tables::by_name(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        if self.runs.iter().any(|run| run.tally.is_some()) && !tables::of_figures(name) {
            return Err(PyValueError::new_err(format!(
                "there is no table {name}: the scenario says records = \"figures\", remove that key"
            )));
        }
        let made = py.detach(|| tables::of(&self.runs, &self.cells, &self.traffics, make));
        made.map(Table::new).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// Returns the summary of each run as JSON.
    fn summaries(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let json = |run: &Run| serde_json::to_string(&Analysis::of(run).summary);
        let all: Result<_, _> = py.detach(|| self.runs.iter().map(json).collect());
        all.map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

/// Runs the experiment `text`, with `pairs` set, in the simulator with one seed: each arm of each
/// cell, or those of `arms`. `progress` is called with the share that is done, 0 to 1.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    file: &str,
    text: &str,
    pairs: Vec<Pair>,
    seed: u64,
    arms: Option<Vec<String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Runs> {
    let points = Points::new(Path::new(file), text, settings(&pairs)?, Vec::new());
    let experiment = points.experiment(&[]).map_err(|error| scenario_error(py, error))?;
    let names = || experiment.cells.iter().flat_map(|c| &c.arms).map(|arm| arm.name.as_str());
    if let Some(name) = arms.iter().flatten().find(|arm| !names().any(|n| n == arm.as_str())) {
        return Err(PyValueError::new_err(format!("{file}: there is no arm `{name}`")));
    }
    let wanted = |name: &String| arms.as_ref().is_none_or(|arms| arms.contains(name));
    let mut jobs = Vec::new();
    for (cell, scenario) in (0..).zip(&experiment.cells) {
        for arm in scenario.arms.iter().filter(|arm| wanted(&arm.name)) {
            jobs.push((cell, Job { scenario, arm, seed }));
        }
    }
    let mut watch = Watch::new(progress, jobs.len());
    let mut runs = Vec::new();
    for (index, (_, job)) in jobs.iter().enumerate() {
        let interrupt = watch.interrupt.clone();
        let run = py.detach(|| Sim.run(job, &interrupt, &mut |p| watch.turn(index, p)));
        if let Some(error) = watch.raised.take() {
            return Err(error);
        }
        runs.push(run.map_err(|error| run_error(py, &error))?);
    }
    watch.end(py)?;
    let names = |job: &Job<'_>| job.scenario.traffic.iter().map(|t| t.name.clone()).collect();
    Ok(Runs {
        runs,
        cells: jobs.iter().map(|(cell, _)| *cell).collect(),
        traffics: jobs.iter().map(|(_, job)| names(job)).collect(),
    })
}

/// Reads the run that `lab run --out` stored in a file.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<Runs> {
    let run = py.detach(|| store::load(&path)).map_err(|error| match error {
        StoreError::Io { .. } => PyOSError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    })?;
    Ok(Runs { runs: vec![run], cells: vec![0], traffics: vec![Vec::new()] })
}

/// Looks at signals during runs and calls the progress function.
struct Watch {
    progress: Option<Py<PyAny>>,
    jobs: usize,
    interrupt: Interrupt,
    last: Instant,
    /// What a signal or the progress function raised; it ends the run.
    raised: Option<PyErr>,
}

impl Watch {
    fn new(progress: Option<Py<PyAny>>, jobs: usize) -> Self {
        let (interrupt, last) = (Interrupt::default(), Instant::now());
        Self { progress, jobs, interrupt, last, raised: None }
    }

    /// Reports that job `index` has come to `progress`, if the last report was a while ago.
    fn turn(&mut self, index: usize, progress: Progress) {
        if self.last.elapsed() < TURN || self.raised.is_some() {
            return;
        }
        self.last = Instant::now();
        let part = progress.elapsed.0 as f64 / progress.length.0.max(1) as f64;
        let done = (index as f64 + part) / self.jobs as f64;
        if let Err(error) = Python::attach(|py| self.tell(py, done)) {
            self.raised = Some(error);
            self.interrupt.raise();
        }
    }

    fn tell(&self, py: Python<'_>, done: f64) -> PyResult<()> {
        py.check_signals()?;
        self.progress.as_ref().map_or(Ok(()), |f| f.call1(py, (done,)).map(drop))
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.tell(py, 1.0)
    }
}
