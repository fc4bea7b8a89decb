use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use forebay_system::clock;
use forebay_units::Nanos;

use super::addresses::Place;
use super::boxes;
use super::dataplane::Dataplane;
use super::faults::Faults;
use super::network::{Network, QUEUE};
use super::process::{Kind, Processes};
use super::programs::{Program, programs};
use super::qdisc::{Counted, Timers};
use super::run_dir::RunDir;
use super::senders::Senders;
use super::steal_time::Processors;
use super::{capabilities, collect, exec, qdisc};
use crate::engine::{Engine, EngineError, Interrupt, Job, Phase, Progress};
use crate::results::Run;
use crate::scenario::{Maker, Process, Sendbox};
use crate::traffic::Start;

/// The time in which processes must be set up; connecting may lose a packet or two.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The time between the last process's being ready and the common start.
const LEAD: Nanos = Nanos::from_millis(200);
/// The time in which programs must write their records.
const DONE_WITHIN: Nanos = Nanos::from_secs(20);
/// The interval at which progress is reported and interrupts are checked.
const TICK: Duration = Duration::from_millis(100);

/// The real-time engine. A run takes as long as its scenario and needs root.
#[derive(Clone, Debug)]
pub struct Netns {
    /// The program `forebay`, which runs the boxes.
    pub forebay: PathBuf,
    /// Where packets queue at the sendboxes.
    pub dataplane: Dataplane,
}

impl Engine for Netns {
    fn name(&self) -> &'static str {
        match self.dataplane {
            Dataplane::User => "netns",
            Dataplane::Kernel => "netns-kernel",
        }
    }

    fn check(&self, job: &Job<'_>) -> Result<(), EngineError> {
        capabilities::check(job, self.dataplane)?;
        usable()?;
        qdisc::check(job)
    }

    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError> {
        run_with(job, self, Timers::Late, interrupt, progress)
    }
}

/// Runs `job` on a kernel whose timers are `timers`.
pub(crate) fn run_with(
    job: &Job<'_>,
    engine: &Netns,
    timers: Timers,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Progress),
) -> Result<Run, EngineError> {
    engine.check(job)?;
    // Only a sendbox has this choice.
    let dataplane = match job.arm.sendbox {
        Sendbox::Link(_) => Dataplane::User,
        _ if !job.arm.program.is_empty() => Dataplane::Kernel,
        _ => engine.dataplane,
    };
    let length = job.scenario.length();
    progress(Progress { phase: Phase::SetUp, elapsed: Nanos::ZERO, length });
    // Dropped in reverse order, also on an error, an interrupt or a panic: processes, namespaces,
    // directory.
    let dir = RunDir::create()?;
    let senders = Senders::register(job, dir.id())?;
    let network = Network::set_up(&dir, job, dataplane, timers)?;
    let mut processes = Processes::new();

    boxes::start(&engine.forebay, job, timers, &dir, &network, &mut processes)?;
    wait_until_ready(&mut processes, interrupt)?;
    let pairs = (0..job.scenario.traffic.len())
        .map(|index| programs(job, &senders, index, &|name| dir.file(name)));
    let (firsts, seconds): (Vec<_>, Vec<_>) = pairs.map(|[a, b]| (a, b)).unzip();
    for round in [&firsts, &seconds] {
        for program in round {
            start_program(program, &dir, &network, &mut processes)?;
        }
        wait_until_ready(&mut processes, interrupt)?;
    }

    let processors = Processors::now();
    let start = clock::now().saturating_add(LEAD);
    processes.tell_programs(&Start { start: start.0 })?;
    let mut faults = Faults::new(job, start);
    while !processes.are_done() {
        let elapsed = clock::now().saturating_sub(start);
        progress(Progress::at(job.scenario, elapsed));
        check_interrupt(interrupt)?;
        let stop = |processes: &mut Processes| boxes::stop_sendboxes(job, processes);
        let restart = |process, restarts, processes: &mut Processes| match process {
            Process::Receivebox => {
                boxes::start_receivebox(&engine.forebay, &dir, &network, processes)
            }
            Process::Sendbox => boxes::start_sendboxes(
                &engine.forebay,
                job,
                timers,
                &dir,
                &network,
                processes,
                restarts,
            ),
        };
        faults.act(clock::now(), &mut processes, stop, restart)?;
        processes.wait(TICK.min(faults.next_in(clock::now())))?;
        if elapsed > length.saturating_add(DONE_WITHIN) {
            return Err(EngineError::Unfit(
                "the traffic programs did not end in time: is this machine overloaded?".to_owned(),
            ));
        }
    }
    progress(Progress::at(job.scenario, length));
    if let Some(before) = processors {
        before.warn();
    }
    let restarts = faults.restarts();
    let faults = faults.into_records(&processes);
    processes.end()?;
    let all: Vec<_> = firsts.into_iter().chain(seconds).collect();
    let mut run = collect::collect(job, start, &dir, &all, restarts)?;
    if job.arm.queue.by == Maker::Kernel {
        // The link has ended and the queue is empty, so the kernel's count is final.
        let counted = Counted::of(&network.namespace(Place::Path), QUEUE)?;
        run.hops
            .iter_mut()
            .filter(|hop| hop.hop == "link")
            .try_for_each(|hop| counted.settle(hop))?;
    }
    Ok(Run { faults, ..run })
}

/// Checks whether network namespaces can be created here.
///
/// # Errors
///
/// [`EngineError::Unfit`] without root, and where root may not create them, as in most containers.
pub fn usable() -> Result<(), EngineError> {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err(EngineError::Unfit(
            "network namespaces and raw sockets need root: run it with sudo, or with `--engine sim`, \
             which needs none"
                .to_owned(),
        ));
    }
    static TRIED: OnceLock<Option<i32>> = OnceLock::new();
    TRIED.get_or_init(try_namespace).map_or(Ok(()), |code| {
        let error = std::io::Error::from_raw_os_error(code);
        Err(EngineError::Unfit(format!(
            "no network namespaces can be made here ({error}): run it where root has CAP_SYS_ADMIN, \
             or with `--engine sim`, which needs none"
        )))
    })
}

/// Creates a namespace and discards it; returns the error number if that fails.
fn try_namespace() -> Option<i32> {
    exec::in_new_namespace(|| ()).err().map(|e| e.raw_os_error().unwrap_or(libc::EPERM))
}

fn check_interrupt(interrupt: &Interrupt) -> Result<(), EngineError> {
    if interrupt.is_raised() { Err(EngineError::Interrupted) } else { Ok(()) }
}

fn start_program(
    program: &Program,
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let kind = if program.spec.role.measures() { Kind::Measuring } else { Kind::Serving };
    let namespace = exec::open_namespace(&network.namespace(program.place))?;
    processes.start(dir, &program.name, kind, namespace, ["agent"])?;
    processes.tell_last(&program.spec)
}

fn wait_until_ready(processes: &mut Processes, interrupt: &Interrupt) -> Result<(), EngineError> {
    let deadline = Instant::now() + READY_WITHIN;
    while !processes.are_ready() {
        check_interrupt(interrupt)?;
        processes.wait(TICK)?;
        if Instant::now() > deadline {
            return Err(processes.laggards());
        }
    }
    Ok(())
}
