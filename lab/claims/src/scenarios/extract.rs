//! Extracts from a run the values that figures are made of, as soon as the run has ended. The run
//! itself is then dropped.

use std::collections::{BTreeMap, BTreeSet};

use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};

use super::passed::Passed;
use super::picture::{Part, Wanted};
use super::quantity::{Measure, Quantity, Statistic};
use super::traffic_kind::KindFilter;
use super::window::{Window, is_mode, statistic};
use forebay_lab::analysis::{EstimateErrors, Intake, Sorted, at_sendbox, at_sendbox_of, slowdown};
use forebay_lab::engine::Job;
use forebay_lab::results::{Progress, Request, Run, Tick};
use forebay_lab::scenario::{Arm, Experiment, Origin, Scenario, TrafficKind};

/// The values that are kept of one run.
pub(super) struct Extract {
    /// The index of the cell in the experiment.
    pub(super) cell: usize,
    /// The index of the arm in the cell.
    pub(super) arm: usize,
    pub(super) seed: u64,
    pub(super) samples: BTreeMap<Quantity, Sorted>,
    /// What receivers read over time, for comparisons.
    pub(super) intake: Intake,
    /// The part of the picture that this run gives, if any.
    pub(super) part: Option<Part>,
}

impl Extract {
    /// Extracts what `quantities` and the picture need from `run`, which was `job` of `experiment`.
    pub(super) fn of(
        experiment: &Experiment,
        job: &Job<'_>,
        run: &Run,
        quantities: &BTreeSet<Quantity>,
        picture: Option<&Wanted>,
    ) -> Self {
        let sample = |q: &Quantity| (q.clone(), sample(q, job.scenario, run));
        // A job is of the experiment's own scenarios and arms.
        let own = |c: &Scenario| std::ptr::eq(c, job.scenario);
        let cell = experiment.cells.iter().position(own).unwrap_or_default();
        let own = |a: &Arm| a.name == job.arm.name;
        let arm = job.scenario.arms.iter().position(own).unwrap_or_default();
        Self {
            cell,
            arm,
            seed: job.seed,
            samples: quantities.iter().map(sample).collect(),
            intake: Intake::of(run),
            part: picture.and_then(|wanted| Part::of(wanted, cell, job, run)),
        }
    }
}

/// The values of `quantity` in `run`: all values of a pooled measure, otherwise one or none.
fn sample(quantity: &Quantity, scenario: &Scenario, run: &Run) -> Sorted {
    let window = Window::of(run, quantity.phase.as_deref());
    match quantity.measure {
        Measure::Slowdown => {
            requests(quantity, scenario, run, window).map(|r| slowdown(run, r)).collect()
        }
        Measure::CompletionTime => requests(quantity, scenario, run, window)
            .map(|r| r.end.unwrap_or(run.end.0).saturating_sub(r.start) as f64 / 1e6)
            .collect(),
        Measure::RoundTrip => {
            let trips = run.round_trips.iter();
            let own = trips.filter(|t| window.holds(t.start) && quantity.is_of(&t.traffic));
            own.filter_map(|t| Some((t.end? - t.start) as f64 / 1e6)).collect()
        }
        Measure::RttError => EstimateErrors::of(run).rtt.new.magnitudes(),
        Measure::ReceiveRateError => EstimateErrors::of(run).receive_rate.new.magnitudes(),
        Measure::BottleneckQueue
        | Measure::Share
        | Measure::Marked
        | Measure::Dropped
        | Measure::Window => {
            let passed = Passed::of(quantity, scenario, run, window);
            passed.and_then(|passed| passed.measure(quantity, scenario)).into_iter().collect()
        }
        Measure::SendboxQueue => sendbox_queue(quantity, scenario, run, window),
        Measure::Queues => {
            let wait =
                |measure| sample(&Quantity { measure, ..quantity.clone() }, scenario, run).mean();
            let waits = wait(Measure::BottleneckQueue).zip(wait(Measure::SendboxQueue));
            waits.map(|(bottleneck, sendbox)| bottleneck + sendbox).into_iter().collect()
        }
        Measure::Goodput => goodput(quantity, run, window).into_iter().collect(),
        Measure::OutOfOrder => out_of_order(run, window).into_iter().collect(),
        Measure::Mode => mode_share(quantity, run, window).into_iter().collect(),
        Measure::Fairness => {
            let seconds = fairness(quantity, scenario, run, window);
            seconds.into_iter().collect::<Sorted>().mean().into_iter().collect()
        }
        Measure::FairAfter => {
            fair_after(&fairness(quantity, scenario, run, window)).into_iter().collect()
        }
        Measure::WorseFor => Sorted::default(),
    }
}

/// The requests of the quantity's traffic and size that started in `window`.
fn requests<'a>(
    quantity: &Quantity,
    scenario: &Scenario,
    run: &'a Run,
    window: Window,
) -> impl Iterator<Item = &'a Request> {
    let ranges = connections(scenario, |name| quantity.is_of(name));
    let size = quantity.size;
    run.requests.iter().filter(move |r| {
        window.holds(r.start)
            && size.holds(r.size)
            && ranges.iter().any(|range| range.contains(&r.connection))
    })
}

/// The connections of the traffics with wanted names, as records number them: through all request
/// traffics of the bundles, in the scenario's order.
fn connections(scenario: &Scenario, wanted: impl Fn(&str) -> bool) -> Vec<std::ops::Range<u32>> {
    let (mut before, mut ranges) = (0, Vec::new());
    for traffic in scenario.traffic.iter().filter(|t| t.from != Origin::Cross) {
        if let TrafficKind::Requests { requests, .. } = &traffic.kind {
            let own = before..before + requests.connections;
            before = own.end;
            if wanted(&traffic.name) {
                ranges.push(own);
            }
        }
    }
    ranges
}

/// The statistic of the waits at the sendboxes, or at that of the quantity's bundle.
fn sendbox_queue(quantity: &Quantity, scenario: &Scenario, run: &Run, window: Window) -> Sorted {
    if let Some(bundle) = &quantity.bundle {
        let records = at_sendbox_of(run, bundle);
        let of = waits(&records, window, quantity.at, KindFilter::default());
        return of.into_iter().collect();
    }
    let records = at_sendbox(run);
    if records.is_empty() {
        return std::iter::once(0.0).collect();
    }
    let kind = KindFilter::of(quantity, scenario);
    kind.and_then(|kind| waits(&records, window, quantity.at, kind)).into_iter().collect()
}

fn waits(records: &[Record], window: Window, at: Statistic, kind: KindFilter) -> Option<f64> {
    let sent =
        records.iter().filter(|r| r.fate == Fate::Sent && window.holds(r.time.0) && kind.holds(r));
    statistic(&sent.map(|r| r.sojourn.as_millis_f64()).collect(), at)
}

/// The bytes that receivers of the quantity's traffic read in `window`.
fn read<'a>(
    quantity: &'a Quantity,
    run: &'a Run,
    window: Window,
) -> impl Iterator<Item = &'a Progress> {
    run.progress.iter().filter(move |p| window.ends(p.time) && quantity.is_of(&p.traffic))
}

fn goodput(quantity: &Quantity, run: &Run, window: Window) -> Option<f64> {
    let bytes = read(quantity, run, window).map(|p| p.bytes).fold(0, u64::saturating_add);
    let length = window.length();
    (length > Nanos::ZERO).then(|| Rate::from_bytes_over(Bytes(bytes), length).as_mbps_f64())
}

/// The share of feedback out of order, in per cent over all bundles; `None` without feedback.
fn out_of_order(run: &Run, window: Window) -> Option<f64> {
    let mut bundles: BTreeMap<&str, [&Tick; 2]> = BTreeMap::new();
    for tick in run.ticks.iter().filter(|t| window.holds(t.time)) {
        bundles.entry(&tick.bundle).or_insert([tick, tick])[1] = tick;
    }
    let grown = |count: fn(&Tick) -> u64| -> u64 {
        bundles.values().map(|[first, last]| count(last).saturating_sub(count(first))).sum()
    };
    let (late, in_order) = (grown(|t| t.out_of_order), grown(|t| t.accepted));
    (late + in_order > 0).then(|| late as f64 / (late + in_order) as f64 * 100.0)
}

/// The share of time in the quantity's mode, in per cent of the ticks of its bundles; `None`
/// without ticks.
fn mode_share(quantity: &Quantity, run: &Run, window: Window) -> Option<f64> {
    let counts = |t: &&Tick| {
        window.holds(t.time) && quantity.bundle.as_ref().is_none_or(|name| t.bundle == *name)
    };
    let ticks = || run.ticks.iter().filter(counts);
    let (all, own) = (ticks().count(), ticks().filter(|t| is_mode(t, &quantity.mode)).count());
    (all > 0).then(|| own as f64 / all as f64 * 100.0)
}

/// Jain's index in each whole second of `window`, over all backlogged flows of the quantity's
/// traffic.
fn fairness(quantity: &Quantity, scenario: &Scenario, run: &Run, window: Window) -> Vec<f64> {
    const SECOND: u64 = 1_000_000_000;
    let own = scenario.traffic.iter().filter(|t| quantity.is_of(&t.name));
    let flows = own.map(|t| if let TrafficKind::Bulk { flows, .. } = t.kind { flows } else { 0 });
    let flows = f64::from(flows.sum::<u32>());
    let seconds = usize::try_from(window.length().0 / SECOND).unwrap_or(0);
    let mut bytes: Vec<BTreeMap<(&str, u32), u64>> = vec![BTreeMap::new(); seconds];
    for p in read(quantity, run, window) {
        let second = usize::try_from((p.time - window.from - 1) / SECOND).unwrap_or(usize::MAX);
        if let Some(flows) = bytes.get_mut(second) {
            *flows.entry((&p.traffic, p.flow)).or_default() += p.bytes;
        }
    }
    let jain = |second: &BTreeMap<(&str, u32), u64>| {
        let sum: f64 = second.values().map(|b| *b as f64).sum();
        let squares: f64 = second.values().map(|b| (*b as f64).powi(2)).sum();
        if squares > 0.0 { sum * sum / (flows * squares) } else { 0.0 }
    };
    bytes.iter().map(jain).collect()
}

/// The seconds until the first of five consecutive fair seconds; all of them if there are none.
fn fair_after(seconds: &[f64]) -> Option<f64> {
    const FAIR: f64 = 0.95;
    const LASTS: usize = 5;
    let first = seconds.windows(LASTS).position(|s| s.iter().all(|jain| *jain >= FAIR));
    (!seconds.is_empty()).then(|| first.unwrap_or(seconds.len()) as f64)
}

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
