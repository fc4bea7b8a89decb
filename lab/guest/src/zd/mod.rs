//! Experiments with zD in the kernel: guests in virtual time whose TCP sends through a short queue,
//! with the patch of `kernel/zd` and without.
//!
//! ```text
//!   the guest: flows ── token bucket, pfifo ── wire ── receiver, in a namespace of its own
//!                             │                  └── acknowledgements, delayed by netem
//!                             └── without room: a drop, or with the patch a pause
//! ```
//!
//! Each cell of an experiment is run with three arms, in turn: the unpatched kernel, the patched
//! one with its switch off, and with its switch on. Whoever runs guests answers to `zd-guest` by
//! [`guest`].

mod experiment;
mod guest;
mod machine;
mod order;
mod table;

use std::fmt;
use std::path::Path;

use crate::kernel::kernel_file;
use crate::machine::run_dir;
use crate::{Error, Interrupt};

pub use experiment::{Arm, Cell, Experiment};
pub use guest::main as guest;
pub use machine::Cost;
pub use order::{Findings, Order, Percentiles, Queue, Work};
pub use table::{median, table};

/// The prefix of the lines that a guest prints before and after its measurement.
const MARK: &str = "fb-zd-mark ";

/// Why an experiment has no result.
#[derive(Debug)]
pub struct Failed(
    /// The reason, in the operator's words.
    pub String,
);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl From<Error> for Failed {
    fn from(e: Error) -> Self {
        Self(e.to_string())
    }
}

/// A run: a guest's work with its result and cost.
#[derive(Clone, Debug)]
pub struct Run {
    /// The index of its cell.
    pub cell: usize,
    /// The arm: kernel and switch.
    pub arm: Arm,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The result of the work.
    pub findings: Findings,
    /// The processor time that it used.
    pub cost: Cost,
}

impl Run {
    /// A line that reports its end.
    #[must_use]
    pub fn line(&self) -> String {
        let mbps = self.findings.arrived as f64 * 8.0 / 1e6 / self.findings.seconds;
        let (cell, arm, seed) = (self.cell + 1, self.arm.name(), self.seed);
        format!("cell {cell}, {arm}, seed {seed}: {mbps:.1} Mbit/s")
    }

    /// The run as a line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::json!({
            "cell": self.cell,
            "arm": self.arm.name(),
            "seed": self.seed,
            "cpu_kernel_s": self.cost.kernel,
            "cpu_all_s": self.cost.all,
            "found": self.findings,
        })
        .to_string()
    }
}

/// Runs one guest on `kernel`.
///
/// # Errors
///
/// If it cannot be run, or its work failed.
pub fn run(
    kernel: &Path,
    seed: u64,
    order: &Order,
    interrupt: &Interrupt,
) -> Result<(Findings, Cost), Failed> {
    let dir = run_dir()?;
    let (outcome, cost) = machine::run(kernel, dir.path(), seed, order, interrupt)?;
    Ok((outcome.map_err(|why| Failed(format!("in the guest: {why}")))?, cost))
}

/// Runs all cells of an experiment. The arms take turns, so that other load of the machine affects
/// them alike. `told` is called after each run; missing kernels are built first.
///
/// # Errors
///
/// The first error of a run.
pub fn run_all(
    experiment: &Experiment,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(&Run),
) -> Result<Vec<Run>, Failed> {
    let kernel = |kernel| kernel_file(kernel, interrupt);
    let kernels = Arm::ALL.map(|arm| Ok((arm, kernel(arm.kernel())?)));
    let kernels = kernels.into_iter().collect::<Result<Vec<_>, Failed>>()?;
    let mut runs = Vec::new();
    for (number, cell) in experiment.cells.iter().enumerate() {
        for seed in 1..=u64::from(experiment.runs) {
            for (arm, file) in &kernels {
                let arm = *arm;
                let (findings, cost) = run(file, seed, &cell.order(arm), interrupt)?;
                let run = Run { cell: number, arm, seed, findings, cost };
                told(&run);
                runs.push(run);
            }
        }
    }
    Ok(runs)
}
