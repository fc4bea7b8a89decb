//! The scenario's faults, in virtual time.

use std::collections::VecDeque;

use forebay_units::Nanos;

use super::Simulated;
use crate::engine::Job;
use crate::results::FaultRecord;
use crate::scenario::{Clock, FaultKind, Process, Sendbox};

/// The remaining faults, the next one first, and those that happened. A restarted process is ready
/// at once.
pub(super) struct Faults {
    steps: VecDeque<(Nanos, Step)>,
    records: Vec<FaultRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Kill(Process),
    Restart(Process),
    /// The sendboxes, which only forwarded, begin to control.
    Begin,
    Clock {
        of: Clock,
        by: i64,
    },
    Route {
        rtt: Nanos,
    },
}

impl Faults {
    /// Creates the faults of `job`. Boxes that its arm does not have are left out.
    pub(super) fn new(job: &Job<'_>) -> Self {
        let boxes = matches!(job.arm.sendbox, Sendbox::Bundle(_));
        let mut steps = Vec::new();
        if job.arm.start > Nanos::ZERO {
            steps.push((job.arm.start, Step::Begin));
        }
        for fault in &job.scenario.faults {
            match fault.kind {
                FaultKind::Killed { process, back } if boxes => {
                    steps.push((fault.at, Step::Kill(process)));
                    steps.extend(back.map(|back| (back, Step::Restart(process))));
                }
                FaultKind::Clock { of, by } if boxes => {
                    steps.push((fault.at, Step::Clock { of, by }));
                }
                FaultKind::Route { rtt } => steps.push((fault.at, Step::Route { rtt })),
                FaultKind::Killed { .. } | FaultKind::Clock { .. } => {}
            }
        }
        steps.sort_by_key(|(time, _)| *time);
        Self { steps: steps.into(), records: Vec::new() }
    }

    /// The time of the next fault.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.steps.front().map(|step| step.0)
    }

    /// Performs the faults that are due on the boxes of all sites.
    pub(super) fn act(&mut self, simulated: &mut Simulated) {
        let Simulated { sim, network } = simulated;
        let now = sim.now();
        let bundles: Vec<_> = network.sites.iter().filter_map(|s| s.bundle).collect();
        while let Some(&(time, step)) = self.steps.front()
            && time <= now
        {
            self.steps.pop_front();
            match step {
                Step::Kill(process) => {
                    bundles.iter().for_each(|b| match process {
                        Process::Receivebox => sim.kill_receivebox(*b),
                        Process::Sendbox => sim.kill_sendbox(*b),
                    });
                    let process = process.name().to_owned();
                    self.records.push(FaultRecord { process, killed: now.0, ready: None });
                }
                Step::Begin => {
                    let name = Process::Sendbox.name();
                    let is_dead = |r: &FaultRecord| r.process == name && r.ready.is_none();
                    if !self.records.iter().any(is_dead) {
                        bundles.iter().for_each(|b| sim.start_sendbox(*b));
                    }
                }
                Step::Restart(process) => {
                    bundles.iter().for_each(|b| match process {
                        Process::Receivebox => sim.start_receivebox(*b),
                        Process::Sendbox => sim.start_sendbox(*b),
                    });
                    let mut records = self.records.iter_mut().rev();
                    if let Some(last) = records.find(|r| r.process == process.name()) {
                        last.ready = Some(now.0);
                    }
                }
                Step::Clock { of: Clock::Receivebox, by } => {
                    bundles.iter().for_each(|b| sim.shift_receivebox_clock(*b, by));
                }
                Step::Clock { of: Clock::Sendbox, by } => {
                    // A sendbox's clock only jumps ahead.
                    let by = Nanos(by.unsigned_abs());
                    bundles.iter().for_each(|b| sim.advance_sendbox_clock(*b, by));
                }
                Step::Route { rtt } => {
                    // Half of it each way, as the network is built.
                    network.ways.iter().for_each(|way| sim.set_delay(*way, rtt - rtt / 2));
                    network.backward.iter().for_each(|link| sim.set_delay(*link, rtt / 2));
                }
            }
        }
    }

    /// Returns what happened.
    pub(super) fn into_records(self) -> Vec<FaultRecord> {
        self.records
    }
}
