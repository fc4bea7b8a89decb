//! Runs all jobs of an experiment on an engine, several side by side where the engine allows it.
//!
//! What comes out does not depend on how many ran at a time: results are in the order of
//! [`jobs`], each job is run from nothing, and no two share anything. A worker takes the next job,
//! runs it, keeps its records if they are wanted, analyses them and lets them go before it takes
//! another; so no more raw runs are in memory than there are workers.

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

/// How an experiment is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The directory that the records of each run go to as soon as it has ended, so that an
    /// interruption loses only the runs that are under way.
    pub keep: Option<&'a Path>,
    /// At most so many runs side by side, and never more than [`Engine::side_by_side`]; as many as
    /// that if left out.
    pub jobs: Option<NonZeroUsize>,
}

/// Runs every job of `experiment`, once the engine has found that it can run them all. The first
/// error ends the runs that are under way, and no others are begun.
///
/// What had ended is always returned, in the order of [`jobs`], with the error that ended the rest,
/// if one did.
pub fn run(
    engine: &dyn Engine,
    experiment: &Experiment,
    options: Options<'_>,
    interrupt: &Interrupt,
) -> (Vec<Analysis>, Result<(), RunError>) {
    run_for(engine, experiment, options, interrupt, &|_, run| Analysis::of(run))
}

/// As [`run`], for somebody who wants something else of each run than its [`Analysis`]: what `wanted`
/// makes of it. The run itself is let go.
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
        keep: options.keep,
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

/// What can fail before anything runs.
fn prepare(engine: &dyn Engine, jobs: &[Job<'_>], keep: Option<&Path>) -> Result<(), RunError> {
    jobs.iter().try_for_each(|job| engine.check(job))?;
    keep.map_or(Ok(()), fs::create_dir_all).map_err(|source| RunError::Directory {
        path: keep.map(Path::to_owned).unwrap_or_default(),
        source,
    })
}

/// What the workers share.
struct Crew<'a, T> {
    engine: &'a dyn Engine,
    keep: Option<&'a Path>,
    jobs: &'a [Job<'a>],
    /// The first job that nobody has taken.
    next: AtomicUsize,
    /// One place for each job.
    results: Vec<Mutex<Option<T>>>,
    /// Raised when the user interrupts, and when a worker fails.
    stop: Interrupt,
    /// The first failure, which ended the rest.
    failure: Mutex<Option<RunError>>,
    bar: Bar,
    wanted: &'a (dyn Fn(&Job<'_>, &Run) -> T + Sync),
}

impl<T: Send> Crew<'_, T> {
    /// Takes jobs until there are none, or something has failed.
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
        if let Some(dir) = self.keep {
            store::save(&dir.join(store::file_name(&run)), &run)?;
        }
        part.end();
        Ok((self.wanted)(job, &run))
    }

    /// Keeps the first failure: what the others then say is that they were interrupted.
    fn fail(&self, error: RunError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.raise();
    }
}

/// Ends the other workers' runs when this one panics, so that the panic is not held up by them.
struct OnPanic<'a>(&'a Interrupt);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.raise();
        }
    }
}
