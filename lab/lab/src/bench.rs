//! The speed of the simulator, on dumbbells that stay the same between versions.
//!
//! Each case is run like `forebay lab run --engine sim` would run it, including records, several
//! times on one core. The result is the processor time of the thread, so other work on the machine
//! matters only through the caches.

use std::num::NonZeroUsize;

use forebay_config::ConfigError;
use serde::Serialize;

use crate::analysis::{Sorted, rounded};
use crate::engine::{EngineError, Interrupt, jobs};
use crate::report::number::figure;
use crate::report::table::{Column, Row, Table};
use crate::scenario::{Experiment, parse};
use crate::sim_engine::Sim;

/// The speed in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// The name of the case.
    pub case: &'static str,
    /// The number of events of one run.
    pub events: u64,
    /// The number of packet-hops of one run: each link, sendbox or receivebox that a packet
    /// entered.
    pub hops: u64,
    /// The processor time of the median run.
    pub median_s: f64,
    /// The processor times of the fastest and the slowest run.
    pub range_s: [f64; 2],
    /// Events per second of the median run.
    pub events_per_s: f64,
    /// Packet-hops per second of the median run.
    pub hops_per_s: f64,
}

/// A case: its name, the bottleneck's rate in Mbit/s and queue, the sendbox, and the number of
/// Cubic flows.
type Case = (&'static str, u32, &'static str, &'static str, u32);

const FIFO: &str = r#"{ kind = "fifo", limit = "1 bdp" }"#;
const FQ_CODEL: &str = r#"{ kind = "fq_codel", limit = "10240 packets" }"#;
const FORWARD: &str = r#""forward""#;
const SFQ: &str = r#"{ policy = "sfq", limit = "1000 packets" }"#;

const CASES: [Case; 5] = [
    ("1 flow, 96 Mbit/s, fifo", 96, FIFO, FORWARD, 1),
    ("50 flows, 96 Mbit/s, fifo", 96, FIFO, FORWARD, 50),
    ("50 flows, 96 Mbit/s, fq_codel", 96, FQ_CODEL, FORWARD, 50),
    ("50 flows, 96 Mbit/s, boxes with sfq", 96, FIFO, SFQ, 50),
    ("1000 flows, 1 Gbit/s, fifo", 1000, FIFO, FORWARD, 1000),
];

/// Ten seconds of traffic over 50 ms, all of it measured.
fn experiment((_, rate, queue, sendbox, flows): Case) -> Result<Experiment, ConfigError> {
    let text = format!(
        "name = \"bench\"\nduration = \"10 s\"\n[path]\nrate = \"{rate} Mbit/s\"\nrtt = \"50 ms\"\n\
         queue = {queue}\n[[traffic]]\nname = \"bulk\"\nkind = \"bulk\"\nflows = {flows}\n\
         [[arm]]\nname = \"arm\"\nsendbox = {sendbox}\n"
    );
    parse("bench.toml".as_ref(), &text)
}

/// Runs every case `times`, and passes each speed to `each`.
///
/// # Errors
///
/// If it is interrupted.
pub fn run(
    times: NonZeroUsize,
    interrupt: &Interrupt,
    mut each: impl FnMut(&Speed),
) -> Result<Vec<Speed>, EngineError> {
    let measured = CASES.iter().map(|case| {
        let speed = measure(*case, times, interrupt)?;
        each(&speed);
        Ok(speed)
    });
    measured.collect()
}

fn measure(case: Case, times: NonZeroUsize, interrupt: &Interrupt) -> Result<Speed, EngineError> {
    let experiment = experiment(case).map_err(|e| EngineError::Unfit(e.to_string()))?;
    let job = jobs(&experiment).next();
    let job = job.ok_or_else(|| EngineError::Unfit("a case without runs".to_owned()))?;
    let (mut seconds, mut totals) = (Vec::new(), forebay_sim::Totals::default());
    for _ in 0..times.get() {
        let start = processor_time();
        (_, totals) = Sim.run_counted(&job, interrupt, &mut |_| {})?;
        seconds.push(processor_time() - start);
    }
    let seconds: Sorted = seconds.into_iter().collect();
    // The clock's resolution, if a run took none of its time.
    let of = |p| seconds.percentile(p).unwrap_or_default().max(1e-9);
    let per_second = |n: u64| rounded(n as f64 / of(50), 0);
    Ok(Speed {
        case: case.0,
        events: totals.events,
        hops: totals.hops,
        median_s: rounded(of(50), 4),
        range_s: [of(0), of(100)].map(|s| rounded(s, 4)),
        events_per_s: per_second(totals.events),
        hops_per_s: per_second(totals.hops),
    })
}

/// The time that this thread has run, in seconds.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write to, and every Linux has this clock; an
    // error would leave it zero.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Formats the speeds as a table for a terminal.
pub fn text(speeds: &[Speed], colour: bool) -> String {
    let millions = |n: f64| figure(n / 1e6);
    let row = |s: &Speed| Row {
        label: s.case.to_owned(),
        cells: vec![
            millions(s.events_per_s),
            millions(s.hops_per_s),
            figure(s.median_s),
            format!("{}..{}", figure(s.range_s[0]), figure(s.range_s[1])),
        ],
        strong: false,
    };
    let columns = [
        ("million a second", "events"),
        ("million a second", "hops"),
        ("run, s", "median"),
        ("run, s", "range"),
    ];
    let table = Table {
        corner: "case".to_owned(),
        columns: columns.map(|(group, name)| Column::new(group, name)).to_vec(),
        rows: speeds.iter().map(row).collect(),
    };
    table.text(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_good_experiment_of_one_run() {
        for case in CASES {
            let experiment = experiment(case).unwrap();
            assert_eq!(jobs(&experiment).count(), 1, "{}", case.0);
        }
    }

    #[test]
    fn a_case_is_measured_over_several_runs() {
        let speed = measure(CASES[0], NonZeroUsize::MIN.saturating_add(1), &Interrupt::default());
        let speed = speed.unwrap();
        // 96 Mbit/s of 1514 B for ten seconds are 79 000 packets, with an acknowledgement for every
        // one or two.
        assert!((80_000..200_000).contains(&speed.hops), "{speed:?}");
        assert!(speed.events > speed.hops / 2, "{speed:?}");
        assert!(speed.range_s[0] <= speed.median_s && speed.median_s <= speed.range_s[1]);
        assert!(text(&[speed], false).contains("1 flow, 96 Mbit/s, fifo"));
    }

    #[test]
    fn an_interrupt_ends_it() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let result = run(NonZeroUsize::MIN, &interrupt, |_| {});
        assert!(matches!(result, Err(EngineError::Interrupted)));
    }
}
