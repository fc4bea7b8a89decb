//! Claims whose runs give rows of labels and values: zD's evaluation and that of many flows.
//!
//! Claims are files in `experiments/zd` and `experiments/stack`, like those of other evaluations
//! ([`crate::scenarios`]). Their runs are of several kinds ([`How`]) that share one form of result,
//! the [`Row`]. Rows are stored whole beside the page, so that judgement and tables can change
//! without another run.
//!
//! | key of a claim | meaning |
//! |---|---|
//! | `title`, `source`, `about` | as in other claims |
//! | `[model]` `flows`, `seeds`, `duration`, `[[model.setting]]` | simulated machines: `name`, `rate`, `guest` and `hypervisor` (the lengths of their queues), `modes` (`linux`, `zd`, `carousel`) |
//! | `guests` | or files of [`Experiment`](forebay_guest::zd::Experiment)s beside this one |
//! | `back_end` | or what the benchmark of `forebay vhost` stored |
//! | `[stack]` `repeats`, `rate`, `settle`, `measure`, `threads`, `[[stack.sweep]]` | or connections through this machine's network stack; each sweep is a combination of lists ([`stack`]) |
//! | `table` | the measures in the claim's table |
//! | `[[figure]]` `what`, `measure`, `of`, `to`, `over` | the measure of the cells with the labels `of`, each divided by that of the cell that differs only in the labels `to`; `mean`, `min` or `max` of several cells |
//! | `source`, `band`, `bar`, `why`, `[[changed]]` | as in other claims |
//! | `[[picture]]` `measure`, `along`, `lines`, `of` | the measure along one label, with a line for each value of another |

pub mod catalogue;
pub mod model;
mod page;
pub mod quantity;
pub mod stack;

use std::path::Path;

use self::catalogue::{Claim, How, Sweep};
use forebay_guest::zd::{Experiment, Failed, Work};
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_outcome::{Row, SEED};

pub use catalogue::Catalogue;
pub use page::{ages, page};

/// Runs `claim`, and passes each row to `told` as it comes.
///
/// # Errors
/// If a run fails, or `interrupt` is raised.
pub fn run(
    claim: &Claim,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, Failed> {
    match &claim.how {
        How::Model(sweep) => simulated(sweep, interrupt, told),
        How::Guests(files) => {
            let mut rows = Vec::new();
            for (file, experiment) in files {
                forebay_guest::zd::run_all(experiment, interrupt, &mut |run| {
                    let row = of_guest(file, experiment, run);
                    told(&row);
                    rows.push(row);
                })?;
            }
            Ok(rows)
        }
        How::Stack(load) => stack::run(load, interrupt, told),
        How::BackEnd => Err(Failed(format!(
            "`{}` needs root and real time: `cargo bench -p forebay-benches --features live \
             --bench vhost_zd -- --store DIR` runs it, where DIR is the page's",
            claim.id
        ))),
    }
}

fn simulated(
    sweep: &Sweep,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, Failed> {
    let mut rows = Vec::new();
    for setting in &sweep.settings {
        for &flows in &sweep.flows {
            for &mode in &setting.modes {
                for seed in 1..=sweep.seeds {
                    if interrupt.is_raised() {
                        return Err(EngineError::Interrupted.into());
                    }
                    let row = model::run(setting, mode, flows, seed, sweep.length)?;
                    told(&row);
                    rows.push(row);
                }
            }
        }
    }
    Ok(rows)
}

/// The row of a guest's run; its experiment is in `file`.
fn of_guest(file: &str, experiment: &Experiment, run: &forebay_guest::zd::Run) -> Row {
    let cell = &experiment.cells[run.cell];
    let flows = match cell.work {
        Work::Flows { flows, .. } => flows,
        _ => 0,
    };
    let (found, cost) = (&run.findings, &run.cost);
    let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    Row::new(
        &[
            ("setting", &name),
            ("queue", &cell.queue.limit),
            ("flows", &flows),
            ("mode", &run.arm.name()),
            (SEED, &run.seed),
        ],
        &[
            ("mbps", found.arrived as f64 * 8.0 / 1e6 / found.seconds),
            ("cpu_kernel", cost.kernel),
            ("cpu_all", cost.all),
            ("local_drops", found.dropped as f64),
            ("resent", found.retransmissions as f64),
            ("timeouts", found.timeouts as f64),
            ("timeouts_early", found.early_timeouts as f64),
            ("held", found.held as f64),
            ("frame", found.frame),
            ("rtt_p50", found.round_trips.p50),
            ("rtt_p99", found.round_trips.p99),
            ("rtt_p999", found.round_trips.p999),
            ("wait_p50", found.waits.p50),
            ("wait_p99", found.waits.p99),
            ("silence_p50", found.gaps.p50),
            ("silence_p99", found.gaps.p99),
        ],
    )
}
