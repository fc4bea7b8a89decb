use indicatif::{ProgressBar, ProgressStyle};

use crate::engine::{Job, Phase, Progress};

/// A progress bar in milliseconds of traffic over all runs. It is drawn on standard error if that
/// is a terminal.
pub(super) struct Bar {
    bar: ProgressBar,
    runs: usize,
}

impl Bar {
    pub(super) fn new(jobs: &[Job<'_>]) -> Self {
        let bar = ProgressBar::new(jobs.iter().map(length).sum());
        let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}  ({eta} left)");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self { bar, runs: jobs.len() }
    }

    /// Begins the part of the run of `job`, which has the index `index`.
    pub(super) fn begin(&self, index: usize, job: &Job<'_>) -> Part<'_> {
        let Job { scenario, arm, seed } = job;
        let (number, runs, path) = (index + 1, self.runs, scenario.path);
        self.bar.set_message(format!("run {number} of {runs}: {}, {path}, seed {seed}", arm.name));
        Part { bar: &self.bar, done: 0, length: length(job) }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn length(job: &Job<'_>) -> u64 {
    job.scenario.length().0 / 1_000_000
}

/// One run's part of the progress bar.
pub(super) struct Part<'a> {
    bar: &'a ProgressBar,
    /// The amount of this run that the bar shows.
    done: u64,
    length: u64,
}

impl Part<'_> {
    pub(super) fn advance(&mut self, progress: Progress) {
        match progress.phase {
            Phase::Build { files } => self.bar.set_message(format!(
                "building a kernel, once: {files} files in {:.0} s",
                progress.elapsed.as_secs_f64()
            )),
            Phase::SetUp => {}
            _ => self.show(progress.elapsed.0 / 1_000_000),
        }
        self.bar.tick();
    }

    pub(super) fn end(mut self) {
        self.show(self.length);
    }

    fn show(&mut self, done: u64) {
        let done = done.clamp(self.done, self.length);
        self.bar.inc(done - self.done);
        self.done = done;
    }
}
