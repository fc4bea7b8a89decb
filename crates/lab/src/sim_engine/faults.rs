//! The scenario's faults, in virtual time.

use std::collections::VecDeque;

use forebay_units::Nanos;

use super::Simulated;
use crate::engine::Job;
use crate::results::FaultRecord;
use crate::scenario::{Process, Sendbox};

/// What is still to be done, the next first, and what was. A process that is started again is ready
/// at once.
pub(super) struct Faults {
    steps: VecDeque<(Nanos, Process, Step)>,
    records: Vec<FaultRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Kill,
    Restart,
}

impl Faults {
    /// Those of `job`; not of processes that its arm does not have.
    pub(super) fn new(job: &Job<'_>) -> Self {
        let has = |process| match process {
            Process::Receivebox => matches!(job.arm.sendbox, Sendbox::Bundle(_)),
        };
        let faults = job.scenario.faults.iter().filter(|fault| has(fault.process));
        let mut steps: Vec<_> = faults
            .flat_map(|fault| {
                [(Some(fault.at), Step::Kill), (fault.back, Step::Restart)]
                    .map(|(time, step)| Some((time?, fault.process, step)))
            })
            .flatten()
            .collect();
        steps.sort_by_key(|(time, ..)| *time);
        Self { steps: steps.into(), records: Vec::new() }
    }

    /// When something is to be done next.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.steps.front().map(|step| step.0)
    }

    /// Does what is due, to the receiveboxes of all sites.
    pub(super) fn act(&mut self, simulated: &mut Simulated) {
        let now = simulated.sim.now();
        let bundles: Vec<_> = simulated.network.sites.iter().filter_map(|s| s.bundle).collect();
        while let Some(&(time, process, step)) = self.steps.front()
            && time <= now
        {
            self.steps.pop_front();
            match (process, step) {
                (Process::Receivebox, Step::Kill) => {
                    bundles.iter().for_each(|b| simulated.sim.kill_receivebox(*b));
                    let process = process.name().to_owned();
                    self.records.push(FaultRecord { process, killed: now.0, ready: None });
                }
                (Process::Receivebox, Step::Restart) => {
                    bundles.iter().for_each(|b| simulated.sim.start_receivebox(*b));
                    if let Some(last) = self.records.last_mut() {
                        last.ready = Some(now.0);
                    }
                }
            }
        }
    }

    /// What was done.
    pub(super) fn into_records(self) -> Vec<FaultRecord> {
        self.records
    }
}
