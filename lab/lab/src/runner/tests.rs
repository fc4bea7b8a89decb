use std::collections::BTreeSet;
use std::sync::Condvar;

use forebay_units::{Nanos, Rate};

use super::*;
use crate::engine::{Phase, Progress};
use crate::scenario::{DEMO, parse};

/// Returns the demonstration with four arms and two seeds: eight jobs.
fn experiment() -> Experiment {
    let mut demo = parse("demo.toml".as_ref(), DEMO).unwrap();
    demo.seeds = vec![1, 2];
    demo
}

fn name(arm: &str, seed: u64) -> String {
    format!("{arm} {seed}")
}

const ORDER: [&str; 8] = [
    "status_quo 1",
    "in_network_sfq 1",
    "forebay_sfq 1",
    "forebay_fifo 1",
    "status_quo 2",
    "in_network_sfq 2",
    "forebay_sfq 2",
    "forebay_fifo 2",
];

/// The completed runs and the number of runs in progress.
#[derive(Default)]
struct Seen {
    ended: BTreeSet<String>,
    under_way: usize,
    most: usize,
}

/// An engine whose runs are empty and end in a prescribed order.
#[derive(Default)]
struct Directed {
    side_by_side: usize,
    /// The job that waits, and the job for whose end it waits.
    waits: Option<(&'static str, &'static str)>,
    /// The jobs that fail, and the jobs that last until they are interrupted.
    fails: &'static [&'static str],
    lasts: &'static [&'static str],
    /// The job that cannot run here.
    unfit: Option<&'static str>,
    seen: Mutex<Seen>,
    change: Condvar,
}

impl Engine for Directed {
    fn name(&self) -> &'static str {
        "directed"
    }

    fn side_by_side(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.side_by_side).unwrap_or(NonZeroUsize::MIN)
    }

    fn check(&self, job: &Job<'_>) -> Result<(), EngineError> {
        match self.unfit {
            Some(unfit) if unfit == name(&job.arm.name, job.seed) => {
                Err(EngineError::Unfit("not here".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError> {
        let name = name(&job.arm.name, job.seed);
        let mut seen = self.seen.lock().unwrap();
        seen.under_way += 1;
        seen.most = seen.most.max(seen.under_way);
        self.change.notify_all();
        if let Some((_, other)) = self.waits.filter(|(waiting, _)| *waiting == name) {
            seen = self.change.wait_while(seen, |s| !s.ended.contains(other)).unwrap();
        }
        let failed = if self.lasts.contains(&name.as_str()) {
            drop(seen);
            while !interrupt.is_raised() {
                thread::yield_now();
            }
            seen = self.seen.lock().unwrap();
            Some(EngineError::Interrupted)
        } else if self.fails.contains(&name.as_str()) {
            Some(EngineError::Unfit(format!("{name} fails")))
        } else {
            None
        };
        progress(Progress { phase: Phase::Measure, elapsed: Nanos::MAX, length: Nanos::MAX });
        seen.under_way -= 1;
        seen.ended.insert(name);
        self.change.notify_all();
        let run = Run {
            arm: job.arm.name.clone(),
            seed: job.seed,
            end: Nanos::from_secs(1),
            rate: Rate::from_mbps(96),
            ..Run::default()
        };
        failed.map_or(Ok(run), Err)
    }
}

fn names(done: &[Analysis]) -> Vec<String> {
    done.iter().map(|a| name(&a.summary.arm, a.summary.seed)).collect()
}

fn run_on(engine: &Directed) -> (Vec<Analysis>, Result<(), RunError>) {
    run(engine, &experiment(), Options::default(), &Interrupt::default())
}

#[test]
fn results_are_in_the_order_of_jobs_whatever_the_order_of_ending() {
    // The first ends last.
    let engine = Directed {
        side_by_side: 2,
        waits: Some(("status_quo 1", "forebay_fifo 2")),
        ..Directed::default()
    };
    let (done, result) = run_on(&engine);
    result.unwrap();
    assert_eq!(names(&done), ORDER);
    assert_eq!(engine.seen.into_inner().unwrap().most, 2);
    let sequential = run_on(&Directed::default());
    assert_eq!(done, sequential.0);
}

#[test]
fn no_more_at_a_time_than_the_engine_and_the_user_allow() {
    for (side_by_side, jobs, most) in [(1, 8, 1), (3, 1, 1)] {
        let engine = Directed { side_by_side, ..Directed::default() };
        let options = Options { jobs: NonZeroUsize::new(jobs), ..Options::default() };
        let (done, result) = run(&engine, &experiment(), options, &Interrupt::default());
        result.unwrap();
        assert_eq!(done.len(), 8);
        assert_eq!(engine.seen.into_inner().unwrap().most, most);
    }
}

#[test]
fn the_first_error_ends_the_rest_and_keeps_what_had_ended() {
    // One lasts for ever, beside it two end and the next fails.
    let engine = Directed {
        side_by_side: 2,
        lasts: &["status_quo 1"],
        fails: &["forebay_fifo 1"],
        ..Directed::default()
    };
    let (done, result) = run_on(&engine);
    assert_eq!(names(&done), ["in_network_sfq 1", "forebay_sfq 1"]);
    assert_eq!(result.unwrap_err().to_string(), "forebay_fifo 1 fails");
    assert_eq!(engine.seen.into_inner().unwrap().ended.len(), 4, "none was begun after it");
}

#[test]
fn an_interrupt_keeps_what_had_ended() {
    let engine = Directed { lasts: &["in_network_sfq 1"], ..Directed::default() };
    let interrupt = Interrupt::default();
    let (done, result) = thread::scope(|scope| {
        scope.spawn(|| {
            let seen = engine.seen.lock().unwrap();
            let wait = |s: &mut Seen| s.ended.is_empty() || s.under_way == 0;
            let _seen = engine.change.wait_while(seen, wait).unwrap();
            interrupt.raise();
        });
        run(&engine, &experiment(), Options::default(), &interrupt)
    });
    assert_eq!(names(&done), ["status_quo 1"]);
    assert!(matches!(result, Err(RunError::Engine(EngineError::Interrupted))));
}

#[test]
fn jobs_that_cannot_run_are_refused_before_any_run() {
    let engine = Directed { unfit: Some("forebay_fifo 2"), ..Directed::default() };
    let dir = std::env::temp_dir().join(format!("fb-unfit-{}", std::process::id()));
    let options = Options { keep: Some(&dir), ..Options::default() };
    let (done, result) = run(&engine, &experiment(), options, &Interrupt::default());
    assert!(done.is_empty() && engine.seen.into_inner().unwrap().most == 0);
    assert_eq!(result.unwrap_err().to_string(), "not here");
    assert!(!dir.exists());
}

#[test]
fn records_are_the_same_however_many_run_at_a_time() {
    let mut experiment = experiment();
    experiment.cells = experiment.cells.into_iter().map(short).collect();
    let stored = |jobs: usize| {
        let dir = std::env::temp_dir().join(format!("fb-jobs-{}-{jobs}", std::process::id()));
        let engine = Sim2;
        let jobs = NonZeroUsize::new(jobs);
        let options = Options { keep: Some(&dir), jobs, ..Options::default() };
        let (done, result) = run(&engine, &experiment, options, &Interrupt::default());
        result.unwrap();
        let files: Vec<_> = store::files(&dir).unwrap().into_iter().collect();
        let texts: Vec<_> = files.iter().map(|f| fs::read(f).unwrap()).collect();
        let names: Vec<_> = files.iter().map(|f| f.file_name().unwrap().to_owned()).collect();
        fs::remove_dir_all(&dir).unwrap();
        let summaries = done.iter().map(|a| serde_json::to_string(&a.summary).unwrap());
        (summaries.collect::<Vec<_>>(), names, texts)
    };
    let (one, two) = (stored(1), stored(2));
    assert_eq!(one.0.len(), 8);
    assert_eq!((&one.0, &one.1), (&two.0, &two.1));
    assert!(one.2 == two.2, "byte for byte");
}

fn short(mut cell: crate::scenario::Scenario) -> crate::scenario::Scenario {
    cell.warmup = Nanos::ZERO;
    cell.measured_for(Nanos::from_millis(500))
}

/// The simulator on two threads, even on a machine with one core.
struct Sim2;

impl Engine for Sim2 {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn side_by_side(&self) -> NonZeroUsize {
        NonZeroUsize::MIN.saturating_add(1)
    }

    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError> {
        crate::sim_engine::Sim.run(job, interrupt, progress)
    }
}
