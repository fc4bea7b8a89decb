//! What all engines have in common.

use std::num::NonZeroUsize;

use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::results::{self, Run};
use crate::scenario::{self, Arm, Experiment, Scenario};

pub use forebay_guest::{Error as EngineError, Interrupt};

/// One run: an arm of a scenario with a seed.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The scenario, one cell of an experiment.
    pub scenario: &'a Scenario,
    /// One of its arms.
    pub arm: &'a Arm,
    /// The seed of all that is random.
    pub seed: u64,
}

impl Job<'_> {
    /// The record of the run, which starts at `start`, before anything has happened in it.
    pub(crate) fn record(&self, start: Nanos) -> Run {
        let scenario = self.scenario;
        let measured = scenario.measured();
        let phase = |p: &scenario::Phase| results::Phase {
            name: p.name.clone(),
            start: (start + p.start).0,
            stop: (start + p.stop).0,
        };
        Run {
            arm: self.arm.name.clone(),
            seed: self.seed,
            labels: scenario.labels.clone(),
            start: start + measured.start,
            end: start + measured.end,
            rate: scenario.path.rate,
            base_rtt: scenario.path.rtt,
            phases: scenario.phases.iter().map(phase).collect(),
            ..Run::default()
        }
    }
}

/// All runs of `experiment`. The arms of one cell and seed follow each other, so that on a real
/// machine what disturbs one comparison disturbs all of its arms alike.
pub fn jobs(experiment: &Experiment) -> impl Iterator<Item = Job<'_>> {
    experiment.cells.iter().flat_map(|scenario| {
        experiment
            .seeds
            .iter()
            .flat_map(move |&seed| scenario.arms.iter().map(move |arm| Job { scenario, arm, seed }))
    })
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// How long traffic has been on; or for how long the engine has been building what it needs.
    pub elapsed: Nanos,
    /// How long it will be on altogether.
    pub length: Nanos,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The engine builds what it needs, once for all runs.
    Build {
        /// How many files are compiled.
        files: u32,
    },
    /// Hosts and boxes are set up.
    SetUp,
    /// Traffic is on, and not measured yet.
    WarmUp,
    /// Traffic is on and measured.
    Measure,
    /// Traffic is on, and not measured any more.
    CoolDown,
    /// Results are gathered.
    Collect,
}

impl Progress {
    /// Where `scenario` is when traffic has been on for `elapsed`.
    pub fn at(scenario: &Scenario, elapsed: Nanos) -> Self {
        let measured = scenario.measured();
        let phase = match elapsed {
            t if t < measured.start => Phase::WarmUp,
            t if t < measured.end => Phase::Measure,
            t if t < scenario.length() => Phase::CoolDown,
            _ => Phase::Collect,
        };
        Self { phase, elapsed: elapsed.min(scenario.length()), length: scenario.length() }
    }
}

/// Runs jobs, several at a time if it says so.
pub trait Engine: Sync {
    /// Its name, as results call it; with `-kernel` where the kernel queues at the sendboxes.
    fn name(&self) -> &'static str;

    /// How many jobs may run side by side on this machine without one changing another's figures.
    /// An engine in real time has the machine to itself.
    fn side_by_side(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// Whether `job` can be run here. Asked of all jobs of an experiment before the first runs, so
    /// that nobody waits an hour to hear that the last cannot be; so it must be quick.
    ///
    /// # Errors
    /// [`EngineError::Unfit`], which says in a line what to change.
    fn check(&self, _job: &Job<'_>) -> Result<(), EngineError> {
        Ok(())
    }

    /// Runs `job` from nothing and leaves nothing behind. Calls `progress` a few times a second.
    ///
    /// # Errors
    /// If it was interrupted, or could not be run.
    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError>;
}

/// As many as there are cores, for engines whose runs each keep one busy and see no clock.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{DEMO, parse};

    #[test]
    fn phases_follow_the_scenario() {
        let demo = parse("demo.toml".as_ref(), DEMO).unwrap();
        let phases: Vec<_> = [0, 5, 44, 45, 47]
            .map(|s| Progress::at(&demo.cells[0], Nanos::from_secs(s)).phase)
            .into();
        use Phase::{Collect, CoolDown, Measure, WarmUp};
        assert_eq!(phases, [WarmUp, Measure, Measure, CoolDown, Collect]);
    }

    #[test]
    fn arms_of_a_comparison_follow_each_other() {
        let mut demo = parse("demo.toml".as_ref(), DEMO).unwrap();
        demo.seeds = vec![4, 9];
        let jobs: Vec<_> = jobs(&demo).map(|job| (job.seed, job.arm.name.as_str())).collect();
        assert_eq!(jobs.len(), 8);
        assert_eq!(jobs[0], (4, "status_quo"));
        assert_eq!(jobs[3], (4, "forebay_fifo"));
        assert_eq!(jobs[4], (9, "status_quo"));
    }
}
