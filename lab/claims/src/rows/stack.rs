//! Connections through the network stack of this machine, as `forebay stack` measures them.
//!
//! | key | meaning |
//! |---|---|
//! | `[stack]` `repeats` | how often all points are measured; the rounds follow one another, so that a disturbance does not meet one point in all of them |
//! | `rate` | the rate of the link |
//! | `settle`, `measure` | the time before each measurement, and its length |
//! | `threads` | sending threads, and as many receiving ones |
//! | `[[stack.sweep]]` `flows`, `qdisc`, `limit`, `congestion`, `loss`, `paced`, `autosizing` | lists that are combined; a point that two sweeps have is measured once |

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, RateValue, Source, Spanned};
use forebay_guest::zd::Failed;
use forebay_lab::engine::Interrupt;
use forebay_outcome::{Row, SEED};
use forebay_stack::measure::{Measured, Outcome};
use forebay_stack::point::{MAX_FLOWS, Point, QDISCS};
use forebay_stack::probe::functions::{is_enqueue, is_lock, is_lookup};
use forebay_stack::study::{Axes, Families, MAX_POINTS, Study, Told, has_discipline};
use serde::Deserialize;

/// Source addresses of each version of IP; each has more ports than a sixteenth of the most flows.
const SOURCES: u32 = 8;
/// The payload in bytes of a segment on the wire. The slowest flow counts as having sent at least
/// this: with less, the ratio of two rates says nothing.
const ONE_SEGMENT: f64 = 1448.0;

/// The load of a claim.
#[derive(Clone, Debug)]
pub struct Load {
    /// The points that are measured.
    pub points: Vec<Point>,
    /// The number of rounds over all points.
    pub repeats: u64,
    /// The time before each measurement.
    pub settle: Duration,
    /// The length of each measurement.
    pub measure: Duration,
    /// Sending threads, and as many receiving ones.
    pub threads: u32,
}

impl Load {
    /// Everything that decides the runs, as a text.
    pub(super) fn text(&self) -> String {
        let Self { points, repeats, settle, measure, threads } = self;
        let mut text = format!("stack {repeats} {settle:?} {measure:?} {threads}");
        points.iter().for_each(|point| text += &format!("\n{} {point}", point.rate_mbps));
        text
    }
}

/// The table `stack` of a claim.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadTable {
    repeats: u64,
    rate: RateValue,
    settle: DurationValue,
    measure: DurationValue,
    threads: u32,
    sweep: Vec<Sweep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    flows: Vec<u32>,
    #[serde(default)]
    qdisc: Vec<String>,
    limit: Vec<u32>,
    #[serde(default)]
    congestion: Vec<String>,
    #[serde(default)]
    loss: Vec<f64>,
    /// Shares of the rate; 0 is without pacing.
    #[serde(default)]
    paced: Vec<f64>,
    #[serde(default)]
    autosizing: Vec<Autosizing>,
}

/// Which version of autosizing determines the size of segments.
#[derive(Clone, Copy, Deserialize)]
enum Autosizing {
    /// The kernel's own.
    #[serde(rename = "today")]
    Today,
    /// By the rate alone, as before Linux 5.18.
    #[serde(rename = "2018")]
    ByRate,
}

impl Sweep {
    fn points(self, rate_mbps: f64) -> Vec<Point> {
        let base = Point {
            series: String::new(),
            flows: 1,
            rate_mbps,
            qdisc: "pfifo".to_owned(),
            limit: 1,
            congestion: "cubic".to_owned(),
            loss: 0.0,
            delay_ms: 0.0,
            paced: None,
            offload: true,
            tso_rtt_log: None,
            coalesce_us: None,
        };
        let axes = Axes {
            flows: self.flows,
            qdiscs: self.qdisc,
            limits: self.limit,
            congestion: self.congestion,
            loss: self.loss,
            paced: self.paced.iter().map(|share| Some(*share).filter(|s| *s > 0.0)).collect(),
            offload: Vec::new(),
            tso_rtt_log: self
                .autosizing
                .iter()
                .map(|own| match own {
                    Autosizing::Today => None,
                    Autosizing::ByRate => Some(0),
                })
                .collect(),
            coalesce_us: Vec::new(),
        };
        axes.points(&base)
    }

    /// What is wrong with the lists, if anything is.
    fn mistake(&self) -> Option<String> {
        let flows_fit = self.flows.iter().all(|flows| (1..=MAX_FLOWS).contains(flows));
        if self.flows.is_empty() || self.limit.is_empty() || !flows_fit || self.limit.contains(&0) {
            return Some(format!("a sweep needs `flows` of 1 to {MAX_FLOWS}, and `limit`"));
        }
        if let Some(name) = self.qdisc.iter().find(|name| !QDISCS.contains(&name.as_str())) {
            return Some(format!("there is no qdisc `{name}`: there are {}", QDISCS.join(", ")));
        }
        let shares = self.loss.iter().chain(&self.paced);
        let outside = |share: &&f64| !(0.0..1.0).contains(*share);
        shares.into_iter().find(outside).map(|share| format!("{share} is no share: 0 to below 1"))
    }
}

/// Checks the table `stack` and combines its lists.
pub(super) fn load(source: &Source, table: Spanned<LoadTable>) -> Result<Load, ConfigError> {
    let span = table.span();
    let fail = |what: &str| source.error_at(span.clone(), "stack", what);
    let LoadTable { repeats, rate, settle, measure, threads, sweep } = table.into_inner();
    let mut points: Vec<Point> = Vec::new();
    for sweep in sweep {
        if let Some(mistake) = sweep.mistake() {
            return Err(fail(&mistake));
        }
        for point in sweep.points(rate.0.as_mbps_f64()) {
            // The series is a name for pictures of `forebay stack`, which has no meaning here.
            let point = Point { series: String::new(), ..point };
            if !points.contains(&point) {
                points.push(point);
            }
        }
    }
    if points.is_empty() || points.len() > MAX_POINTS || !(1..=100).contains(&repeats) {
        return Err(fail(&format!("needs 1 to {MAX_POINTS} points and 1 to 100 repeats")));
    }
    let (settle, measure) = (Duration::from_nanos(settle.0.0), Duration::from_nanos(measure.0.0));
    let longest = Duration::from_secs(3600);
    if measure < Duration::from_secs(2) || measure > longest || settle > longest {
        return Err(fail("`measure` must be 2 s to an hour, and `settle` at most an hour"));
    }
    if !(1..=1024).contains(&threads) {
        return Err(fail("`threads` must be 1 to 1024"));
    }
    Ok(Load { points, repeats, settle, measure, threads })
}

/// Measures all points of `load`, as root, and passes each row to `told` as it comes. Points whose
/// queueing discipline this kernel lacks are left out.
pub(super) fn run(
    load: &Load,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(&Row),
) -> Result<Vec<Row>, Failed> {
    let failed = |e: &dyn std::error::Error| Failed(e.to_string());
    let mut lacking = BTreeSet::new();
    for name in load.points.iter().map(|point| point.qdisc.as_str()).collect::<BTreeSet<_>>() {
        let error = "looking for queueing disciplines needs root";
        if !has_discipline(name).map_err(|e| Failed(format!("{error}: {e}")))? {
            lacking.insert(name.to_owned());
        }
    }
    let there = load.points.iter().filter(|point| !lacking.contains(&point.qdisc));
    let points: Vec<_> = there.cloned().collect();
    if points.is_empty() {
        let lacking: Vec<_> = lacking.into_iter().collect();
        return Err(Failed(format!(
            "this kernel has no {}: run it in a guest with scripts/stack-guest",
            lacking.join(", ")
        )));
    }
    let study = Study {
        points,
        families: Families::Both,
        sources: SOURCES,
        settle: load.settle,
        measure: load.measure,
        threads: load.threads,
        tune: true,
        functions: true,
    };
    let mut rows = Vec::new();
    for seed in 1..=load.repeats {
        let mut tell = |what: Told<'_>| {
            if let Told::Measured(_, outcome) = what {
                let row = row(outcome, seed);
                told(&row);
                rows.push(row);
            }
            Ok(())
        };
        study.run(interrupt, &mut tell).map_err(|e| failed(&e))?;
    }
    Ok(rows)
}

fn row(Outcome { point, measured }: &Outcome, seed: u64) -> Row {
    let Measured { rtt_ms, rates, cpu, .. } = measured;
    let autosizing = if point.tso_rtt_log.is_some() { "2018" } else { "today" };
    let mut values = vec![
        ("mbps", measured.goodput_mbps),
        ("cpu_busy", 100.0 * measured.busy()),
        ("other_programs", 100.0 * measured.other_programs),
        ("rtt_mean", rtt_ms.mean),
        ("rtt_p50", rtt_ms.p50),
        ("rtt_p99", rtt_ms.p99),
        ("resent_share", 100.0 * measured.retransmitted),
        ("segments_per_s", measured.segments_per_s),
        ("segment_bytes", measured.segment_bytes),
        ("acks_per_s", measured.acks_per_s),
        ("acks_per_packet", measured.acks_per_packet()),
        ("softirqs_per_s", cpu.net_rx_per_s),
        ("rate_spread", spread(measured)),
        ("jain", rates.jain),
        ("queue_drops", measured.drops_per_s),
        ("queued", measured.queued),
        ("ended", f64::from(measured.lost)),
    ];
    if measured.goodput_mbps > 0.0 {
        let gbit = measured.goodput_mbps / 1000.0;
        values.push(("segments_per_gbit", measured.segments_per_s / gbit));
        values.extend(measured.cpu_per_gbit().map(|cost| ("cpu_per_gbit", cost)));
    }
    let is_ack: fn(&str) -> bool = |name| name == "tcp_ack";
    for (key, wanted) in [
        ("ns_enqueue", is_enqueue as fn(&str) -> bool),
        ("ns_lock", is_lock),
        ("ns_lookup", is_lookup),
        ("ns_ack", is_ack),
    ] {
        // A function that is too fast to be sampled says nothing.
        values.extend(measured.ns_per_segment(wanted).filter(|ns| *ns > 0.0).map(|ns| (key, ns)));
    }
    Row::new(
        &[
            ("flows", &point.flows),
            ("qdisc", &point.qdisc),
            ("queue", &point.limit),
            ("congestion", &point.congestion),
            ("loss", &point.loss),
            ("paced", &point.paced.unwrap_or_default()),
            ("autosizing", &autosizing),
            (SEED, &seed),
        ],
        &values,
    )
}

/// How many times as fast the 99th percentile of flows is as the first, which counts as having sent
/// a segment at least.
fn spread(measured: &Measured) -> f64 {
    let least = ONE_SEGMENT * 8.0 / measured.seconds.max(1e-9);
    measured.rates.p99.max(least) / measured.rates.p1.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Load, String> {
        #[derive(Deserialize)]
        struct File {
            stack: Spanned<LoadTable>,
        }
        let path = std::path::Path::new("c.claim.toml");
        let (file, source) =
            forebay_config::parse::<File>(path, text).map_err(|e| e.to_string())?;
        load(&source, file.stack).map_err(|e| e.to_string())
    }

    const GOOD: &str = r#"
[stack]
repeats = 2
rate = "1 Gbit/s"
settle = "1 s"
measure = "2 s"
threads = 6
[[stack.sweep]]
flows = [100, 1000]
limit = [10, 100]
paced = [0, 0.9]
[[stack.sweep]]
flows = [1000, 30000]
limit = [100]
autosizing = ["today", "2018"]
"#;

    #[test]
    fn sweeps_are_combined_and_no_point_is_measured_twice() {
        let load = with(GOOD).unwrap();
        // 8 of the first sweep and 4 of the second, of which one is the same.
        assert_eq!(load.points.len(), 11);
        let paced = load.points.iter().filter(|point| point.paced == Some(0.9)).count();
        let old = load.points.iter().filter(|point| point.tso_rtt_log == Some(0)).count();
        assert_eq!((paced, old), (4, 2));
        assert!(load.points.iter().all(|point| point.rate_mbps == 1000.0));
        let other = with(&GOOD.replace("[10, 100]", "[20, 100]")).unwrap();
        assert_ne!(other.text(), load.text());
    }

    #[test]
    fn a_sweep_that_cannot_be_measured_is_refused() {
        for (from, to, says) in [
            ("flows = [100, 1000]", "flows = []", "a sweep needs `flows`"),
            ("flows = [100, 1000]", "flows = [300001]", "a sweep needs `flows`"),
            ("paced = [0, 0.9]", "paced = [1.5]", "1.5 is no share"),
            ("paced = [0, 0.9]", "qdisc = [\"red\"]", "there is no qdisc `red`"),
            ("measure = \"2 s\"", "measure = \"1 s\"", "`measure` must be"),
            ("repeats = 2", "repeats = 0", "1 to 100 repeats"),
            ("threads = 6", "threads = 0", "`threads` must be"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = with(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}\n{says}");
        }
    }

    #[test]
    fn a_flow_that_got_nothing_counts_as_one_segment() {
        let mut measured = Measured { seconds: 2.0, ..Measured::default() };
        measured.rates.p99 = 57_920.0;
        assert_eq!(spread(&measured), 10.0);
        measured.rates.p1 = 28_960.0;
        assert_eq!(spread(&measured), 2.0);
    }
}
