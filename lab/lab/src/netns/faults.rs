use std::collections::VecDeque;
use std::time::Duration;

use forebay_units::Nanos;

use super::process::Processes;
use crate::engine::{EngineError, Job};
use crate::results::FaultRecord;
use crate::scenario::{FaultKind, Process, Sendbox};

/// The faults of a run, which happen at their times.
pub(super) struct Faults {
    /// The remaining steps and their times, the next one first.
    steps: VecDeque<(Nanos, Process, Step)>,
    records: Vec<FaultRecord>,
    /// Whether a restarted process is not ready yet.
    starting: bool,
    /// How often the sendboxes were started again.
    restarts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Kill,
    Restart,
}

impl Faults {
    /// Creates the faults of `job`, which begins at `start`. Processes that its arm does not have
    /// are left out.
    pub(super) fn new(job: &Job<'_>, start: Nanos) -> Self {
        let has = |process| match process {
            Process::Receivebox | Process::Sendbox => matches!(job.arm.sendbox, Sendbox::Bundle(_)),
        };
        let mut steps = Vec::new();
        for fault in &job.scenario.faults {
            // The link changes routes, and other kinds are refused before the run.
            let FaultKind::Killed { process, back } = fault.kind else { continue };
            if has(process) {
                steps.push((start + fault.at, process, Step::Kill));
                steps.extend(back.map(|back| (start + back, process, Step::Restart)));
            }
        }
        steps.sort_by_key(|(time, ..)| *time);
        Self { steps: steps.into(), records: Vec::new(), starting: false, restarts: 0 }
    }

    /// The time until the next step.
    pub(super) fn next_in(&self, now: Nanos) -> Duration {
        let left = |(time, ..): &(Nanos, _, _)| Duration::from_nanos(time.saturating_sub(now).0);
        self.steps.front().map_or(Duration::MAX, left)
    }

    /// How often the sendboxes were started again.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Performs the steps that are due: stops the sendboxes with `stop`, and starts processes again
    /// with `restart`, which gets the number of the sendboxes' restarts.
    ///
    /// # Errors
    ///
    /// If a process cannot be killed or started.
    pub(super) fn act(
        &mut self,
        now: Nanos,
        processes: &mut Processes,
        stop: impl Fn(&mut Processes) -> Result<Nanos, EngineError>,
        restart: impl Fn(Process, u32, &mut Processes) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.look(processes);
        while let Some(&(time, process, step)) = self.steps.front()
            && time <= now
        {
            self.steps.pop_front();
            match step {
                Step::Kill => {
                    self.starting = false;
                    let killed = match process {
                        Process::Receivebox => processes.kill(process.name())?.0,
                        // It writes its packet counts, without which a run cannot be verified.
                        Process::Sendbox => stop(processes)?.0,
                    };
                    let process = process.name().to_owned();
                    self.records.push(FaultRecord { process, killed, ready: None });
                }
                Step::Restart => {
                    self.restarts += u32::from(process == Process::Sendbox);
                    restart(process, self.restarts, processes)?;
                    self.starting = true;
                }
            }
        }
        Ok(())
    }

    /// Returns what happened and when.
    pub(super) fn into_records(mut self, processes: &Processes) -> Vec<FaultRecord> {
        self.look(processes);
        self.records
    }

    fn look(&mut self, processes: &Processes) {
        if let Some(last) = self.records.last_mut().filter(|_| self.starting) {
            last.ready = processes.ready_since(&last.process).map(|time| time.0);
            self.starting = last.ready.is_none();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    const TEXT: &str = r#"name = "x"
duration = "10 s"
path = { rate = "96 Mbit/s", rtt = "50 ms", queue = { kind = "fifo", limit = "2 bdp" } }
[[traffic]]
name = "bulk"
kind = "bulk"
[[arm]]
name = "status_quo"
sendbox = "forward"
[[arm]]
name = "bundle"
sendbox = { policy = "sfq", limit = "1000 packets" }
[[fault]]
process = "receivebox"
at = "2 s"
back = "5 s"
[[fault]]
process = "receivebox"
at = "6 s"
"#;

    #[test]
    fn steps_are_those_of_the_arms_processes() {
        let experiment = parse("x.toml".as_ref(), TEXT).unwrap();
        let scenario = &experiment.cells[0];
        let faults = |arm: usize| {
            let job = Job { scenario, arm: &scenario.arms[arm], seed: 1 };
            Faults::new(&job, Nanos::from_secs(100))
        };
        let none = faults(0);
        assert_eq!((none.steps.len(), none.next_in(Nanos::ZERO)), (0, Duration::MAX));
        let two = faults(1);
        let at = |secs, step| (Nanos::from_secs(secs), Process::Receivebox, step);
        let steps = [at(102, Step::Kill), at(105, Step::Restart), at(106, Step::Kill)];
        assert_eq!(two.steps, steps);
        assert_eq!(two.next_in(Nanos::from_secs(99)), Duration::from_secs(3));
        assert_eq!(two.next_in(Nanos::from_secs(103)), Duration::ZERO, "overdue");
    }
}
