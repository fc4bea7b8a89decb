//! The interface of an engine, and what all engines share.

use std::num::NonZeroUsize;

use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::results::{self, Run};
use crate::scenario::{self, Arm, Experiment, Scenario};

pub use forebay_guest::{Error as EngineError, Interrupt};

/// One run: an arm of a scenario with one seed.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The scenario, one cell of an experiment.
    pub scenario: &'a Scenario,
    /// The arm, one of the scenario's.
    pub arm: &'a Arm,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Job<'_> {
    /// Returns the empty record of a run that starts at `start`.
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

/// Returns all runs of `experiment`. The arms of a cell and seed are adjacent, so that a
/// disturbance of a real machine affects all arms of a comparison alike.
pub fn jobs(experiment: &Experiment) -> impl Iterator<Item = Job<'_>> {
    experiment.cells.iter().flat_map(|scenario| {
        experiment
            .seeds
            .iter()
            .flat_map(move |&seed| scenario.arms.iter().map(move |arm| Job { scenario, arm, seed }))
    })
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The time for which traffic has been on; while the engine builds, the time since its start.
    pub elapsed: Nanos,
    /// The total time for which traffic will be on.
    pub length: Nanos,
}

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The engine builds what it needs; this happens once for all runs.
    Build {
        /// The number of compiled files.
        files: u32,
    },
    /// Hosts and boxes are set up.
    SetUp,
    /// Traffic is on, but not measured yet.
    WarmUp,
    /// Traffic is on and measured.
    Measure,
    /// Traffic is on, but not measured any more.
    CoolDown,
    /// Results are collected.
    Collect,
}

impl Progress {
    /// Returns the progress when traffic of `scenario` has been on for `elapsed`.
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

/// An engine: it runs jobs, several in parallel if it supports that.
pub trait Engine: Sync {
    /// The name in results; it ends in `-kernel` if the kernel queues at the sendboxes.
    fn name(&self) -> &'static str;

    /// The number of jobs that may run in parallel without affecting each other's figures. An
    /// engine in real time needs the machine for itself.
    fn side_by_side(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    /// Checks whether `job` can run here. It is called for all jobs of an experiment before the
    /// first run, so it must be quick.
    ///
    /// # Errors
    ///
    /// [`EngineError::Unfit`] with one line that says what to change.
    fn check(&self, _job: &Job<'_>) -> Result<(), EngineError> {
        Ok(())
    }

    /// Runs `job` and removes everything that it set up. Calls `progress` a few times per second.
    ///
    /// # Errors
    ///
    /// If it is interrupted or fails.
    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError>;
}

/// The number of cores, for engines whose runs use one core each and do not depend on time.
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
