//! Runs all jobs of an experiment on an engine, with a progress bar, and analyses them as they end.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use crate::analysis::Analysis;
use crate::engine::{Engine, EngineError, Interrupt, Job, Phase, Progress, jobs};
use crate::results::store::{self, StoreError};
use crate::scenario::Experiment;

/// Why not everything was run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run failed, or was interrupted.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Records could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory for records cannot be made.
    #[error("cannot make the directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Runs every job of `experiment`. The records of each run go to the directory `keep` as soon as it
/// has ended, so that an interruption loses one run at most.
///
/// What had ended is always returned, with the error that ended the rest, if one did.
pub fn run(
    engine: &dyn Engine,
    experiment: &Experiment,
    keep: Option<&Path>,
    interrupt: &Interrupt,
) -> (Vec<Analysis>, Result<(), RunError>) {
    let mut done = Vec::new();
    let result = run_into(engine, experiment, keep, interrupt, &mut done);
    (done, result)
}

fn run_into(
    engine: &dyn Engine,
    experiment: &Experiment,
    keep: Option<&Path>,
    interrupt: &Interrupt,
    done: &mut Vec<Analysis>,
) -> Result<(), RunError> {
    if let Some(path) = keep {
        fs::create_dir_all(path)
            .map_err(|source| RunError::Directory { path: path.to_owned(), source })?;
    }
    let jobs: Vec<Job<'_>> = jobs(experiment).collect();
    let bar = Bar::new(&jobs);
    for (index, job) in jobs.iter().enumerate() {
        bar.start(index, job);
        let run = engine.run(job, interrupt, &mut |progress| bar.advance(progress))?;
        if let Some(dir) = keep {
            store::save(&dir.join(store::file_name(&run)), &run)?;
        }
        done.push(Analysis::of(&run));
        bar.end(job);
    }
    bar.bar.finish_and_clear();
    Ok(())
}

/// Milliseconds of traffic, over all runs. Drawn on standard error, and only on a terminal.
struct Bar {
    bar: ProgressBar,
    /// Where the present run began.
    base: Cell<u64>,
}

impl Bar {
    fn new(jobs: &[Job<'_>]) -> Self {
        let total = jobs.iter().map(Self::length).sum();
        let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}  ({eta} left)");
        let bar = ProgressBar::new(total);
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self { bar, base: Cell::new(0) }
    }

    fn length(job: &Job<'_>) -> u64 {
        job.scenario.length().0 / 1_000_000
    }

    fn start(&self, index: usize, job: &Job<'_>) {
        let Job { scenario, arm, seed } = job;
        let number = index + 1;
        self.bar.set_message(format!("run {number}: {}, {}, seed {seed}", arm.name, scenario.path));
    }

    fn advance(&self, progress: Progress) {
        if progress.phase != Phase::SetUp {
            self.bar.set_position(self.base.get() + progress.elapsed.0 / 1_000_000);
        }
        self.bar.tick();
    }

    fn end(&self, job: &Job<'_>) {
        self.base.set(self.base.get() + Self::length(job));
        self.bar.set_position(self.base.get());
    }
}
