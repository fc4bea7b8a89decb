//! Runs all jobs of an experiment on an engine, several in parallel where the engine allows it.
//!
//! The result does not depend on the number of parallel runs: results are in the order of [`jobs`],
//! and jobs share no state. A worker takes a job, runs it, stores its records if requested,
//! analyses them and frees them before it takes the next. So the number of raw runs in memory is at
//! most the number of workers.

mod bar;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use self::bar::Bar;
use crate::analysis::Analysis;
use crate::engine::{Engine, EngineError, Interrupt, Job, jobs};
use crate::results::Run;
use crate::results::store::{self, StoreError};
use crate::scenario::{Experiment, Records};

/// Why an experiment did not complete.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run failed or was interrupted.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The records of a run could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Records are to be stored of runs that keep none.
    #[error(
        "a run with records = \"figures\" has no records to store: remove that key, or `--out`"
    )]
    NoRecords,
    /// The directory for records cannot be created.
    #[error("cannot make the directory {}: {source}", path.display())]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// How to run an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The directory in which the records of each run are stored as soon as it ends, so that an
    /// interruption loses only runs in progress.
    pub keep: Option<&'a Path>,
    /// The labels of cells by which records are divided into subdirectories, see
    /// [`store::path_by`].
    pub axes: &'a [&'a str],
    /// The largest number of parallel runs; at most, and by default, [`Engine::side_by_side`].
    pub jobs: Option<NonZeroUsize>,
}

/// Runs every job of `experiment`, after the engine has checked all of them. The first error ends
/// the runs in progress, and no further run begins.
///
/// Always returns the results of all completed runs, in the order of [`jobs`], and the error that
/// ended the others, if there was one.
pub fn run(
    engine: &dyn Engine,
    experiment: &Experiment,
    options: Options<'_>,
    interrupt: &Interrupt,
) -> (Vec<Analysis>, Result<(), RunError>) {
    run_for(engine, experiment, options, interrupt, &|_, run| Analysis::of(run))
}

/// Like [`run`], but returns what `wanted` makes of each run instead of its [`Analysis`]. The run
/// itself is freed.
pub fn run_for<T: Send>(
    engine: &dyn Engine,
    experiment: &Experiment,
    options: Options<'_>,
    interrupt: &Interrupt,
    wanted: &(dyn Fn(&Job<'_>, &Run) -> T + Sync),
) -> (Vec<T>, Result<(), RunError>) {
    let jobs: Vec<Job<'_>> = jobs(experiment).collect();
    if let Err(error) = prepare(engine, &jobs, options.keep) {
        return (Vec::new(), Err(error));
    }
    let allowed = engine.side_by_side();
    let workers = options.jobs.map_or(allowed, |n| n.min(allowed)).get().min(jobs.len());
    let crew = Crew {
        engine,
        options,
        bar: Bar::new(&jobs),
        results: jobs.iter().map(|_| Mutex::new(None)).collect(),
        jobs: &jobs,
        next: AtomicUsize::new(0),
        stop: interrupt.within(),
        failure: Mutex::new(None),
        wanted,
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| crew.work());
        }
        crew.work();
    });
    crew.bar.finish();
    let results = crew.results.into_iter();
    let done = results.filter_map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner));
    let failure = crew.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    (done.collect(), failure.map_or(Ok(()), Err))
}

/// Checks all jobs and creates the directory for records.
fn prepare(engine: &dyn Engine, jobs: &[Job<'_>], keep: Option<&Path>) -> Result<(), RunError> {
    jobs.iter().try_for_each(|job| engine.check(job))?;
    if keep.is_some() && jobs.iter().any(|job| job.scenario.records == Records::Figures) {
        return Err(RunError::NoRecords);
    }
    keep.map_or(Ok(()), make)
}

/// Makes a directory for records.
fn make(dir: &Path) -> Result<(), RunError> {
    fs::create_dir_all(dir).map_err(|source| RunError::Directory { path: dir.to_owned(), source })
}

/// The state that workers share.
struct Crew<'a, T> {
    engine: &'a dyn Engine,
    options: Options<'a>,
    jobs: &'a [Job<'a>],
    /// The index of the next job.
    next: AtomicUsize,
    /// The results, one per job.
    results: Vec<Mutex<Option<T>>>,
    /// The interrupt that is raised by the user or by a failed worker.
    stop: Interrupt,
    /// The first failure, which ended the other runs.
    failure: Mutex<Option<RunError>>,
    bar: Bar,
    wanted: &'a (dyn Fn(&Job<'_>, &Run) -> T + Sync),
}

impl<T: Send> Crew<'_, T> {
    /// Takes and runs jobs until there are none left, or a run failed.
    fn work(&self) {
        let _end_others = OnPanic(&self.stop);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(index) else { return };
            match self.run_one(index, job) {
                Ok(result) => {
                    let mut place =
                        self.results[index].lock().unwrap_or_else(PoisonError::into_inner);
                    *place = Some(result);
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    fn run_one(&self, index: usize, job: &Job<'_>) -> Result<T, RunError> {
        if self.stop.is_raised() {
            return Err(EngineError::Interrupted.into());
        }
        let mut part = self.bar.begin(index, job);
        let run = self.engine.run(job, &self.stop, &mut |progress| part.advance(progress))?;
        if let Some(dir) = self.options.keep {
            let file = dir.join(store::path_by(self.options.axes, &run));
            if let Some(dir) = file.parent() {
                make(dir)?;
            }
            store::save(&file, &run)?;
        }
        part.end();
        Ok((self.wanted)(job, &run))
    }

    /// Stores the first failure; later ones only report the interruption that follows from it.
    fn fail(&self, error: RunError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.raise();
    }
}

/// Interrupts the other workers' runs if this worker panics, so that the panic is reported at once.
struct OnPanic<'a>(&'a Interrupt);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.raise();
        }
    }
}
