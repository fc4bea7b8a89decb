use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use forebay_guest::{
    Kernel, Machine, busiest_process, cpu_time_of_guest, kernel_file_with, run_dir,
};
use forebay_units::Nanos;

use super::memory;
use super::order::{self, Failure, Order};
use super::watch::Watch;
use crate::engine::{Engine, EngineError, Interrupt, Job, Phase, Progress, cores};
use crate::netns::{self, Dataplane};
use crate::results::{Run, store};

/// The interval at which the guest's beats and interrupts are checked.
const TICK: Duration = Duration::from_millis(50);

/// The engine in virtual time. It needs no root. Each run has its own guest and core, so several
/// can run in parallel. The first run builds the guest's kernel, which takes minutes.
#[derive(Clone, Debug)]
pub struct Uml {
    /// The program `forebay`, which runs the boxes.
    pub forebay: PathBuf,
    /// Where packets queue at the sendboxes.
    pub dataplane: Dataplane,
}

impl Engine for Uml {
    fn name(&self) -> &'static str {
        match self.dataplane {
            Dataplane::User => "uml",
            Dataplane::Kernel => "uml-kernel",
        }
    }

    fn side_by_side(&self) -> NonZeroUsize {
        cores()
    }

    /// The engine inside the guest is netns.
    fn check(&self, job: &Job<'_>) -> Result<(), EngineError> {
        netns::capabilities::check(job, self.dataplane)
    }

    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError> {
        let length = job.scenario.length();
        let kernel = kernel_file_with(Kernel::Plain, interrupt, &mut |elapsed, files| {
            progress(Progress { phase: Phase::Build { files }, elapsed, length });
        })?;
        progress(Progress { phase: Phase::SetUp, elapsed: Nanos::ZERO, length });
        // Dropped in reverse order, also on an error, an interrupt or a panic: the guest, then its
        // directory.
        let dir = run_dir()?;
        let order = Order::of(job, self);
        order.write(dir.path()).map_err(EngineError::io("writing the order"))?;
        let mut machine = Machine::boot(&kernel, dir.path(), job.seed, memory::mebibytes(job))?;
        let begun = Instant::now();
        let mut watch = Watch::new(Duration::ZERO);
        let status = loop {
            // Checked before the files are read: the files of an ended guest are complete.
            let ended = machine.ended().map_err(EngineError::io("waiting for the guest"))?;
            let now = begun.elapsed();
            if watch.see(now, order::read_beat(dir.path()))
                && let Some(beat) = watch.last()
            {
                progress(beat);
            }
            if let Some(status) = ended {
                break status;
            }
            if interrupt.is_raised() {
                return Err(EngineError::Interrupted);
            }
            if let Some(still) = watch.stuck_for(now, || cpu_time_of_guest(machine.id())) {
                return Err(hung(&machine, still, watch.last()));
            }
            thread::sleep(TICK);
        };
        if let Some(failure) = Failure::read(dir.path()) {
            return Err(failure.into_error());
        }
        let file = dir.path().join(order::RUN);
        if !file.exists() {
            return Err(died(&machine, status));
        }
        store::load(&file).map_err(|e| EngineError::Unfit(e.to_string()))
    }
}

fn died(machine: &Machine, status: ExitStatus) -> EngineError {
    EngineError::Process {
        process: "the guest's kernel".to_owned(),
        what: format!("ended early ({status})"),
        stderr: machine.console(),
    }
}

fn hung(machine: &Machine, still: Duration, last: Option<Progress>) -> EngineError {
    let Some(last) = last else {
        return EngineError::Process {
            process: "the guest's kernel".to_owned(),
            what: format!("did not start within {still:.0?}"),
            stderr: machine.console(),
        };
    };
    let at = last.elapsed.as_secs_f64();
    EngineError::Process {
        process: busiest_process(machine.id()),
        what: format!(
            "keeps the guest's clock from going on: it has stood at {at} s for {still:.0?}. A \
             program in virtual time must block, not poll"
        ),
        stderr: machine.console(),
    }
}
