//! Draws queues and rates over time.

use std::collections::BTreeMap;
use std::ptr;

use serde::{Deserialize, Serialize};

use super::super::window::is_mode;
use super::plot::{Plot, class};
use forebay_lab::analysis::{Series, at_sendbox, rounded};
use forebay_lab::results::Run;
use forebay_picture::svg::{Anchor, Svg};

/// The caption of the picture.
pub(super) const CAPTION: &str = "The run of each arm with the first seed. Above: the mean wait of \
    packets at the bottleneck and at the sendbox. Below: what receivers read, by traffic. Dashed: \
    phases. Shaded: the bundle is in a mode other than delay control.";

/// The number of points that a curve has at most.
const COLUMNS: usize = 240;
const SECOND: f64 = 1e9;

/// The course of a run over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    arm: String,
    seconds: f64,
    /// The time between two waits, in seconds.
    wait_step_s: f64,
    /// Mean waits at the bottleneck in milliseconds; `None` where no packet left.
    bottleneck_ms: Vec<Option<f64>>,
    sendbox_ms: Vec<Option<f64>>,
    /// The time between two rates, in seconds.
    rate_step_s: f64,
    /// The rates by traffic, in Mbit/s.
    rates_mbps: BTreeMap<String, Vec<f64>>,
    phases: Vec<Stretch>,
    /// The modes of the first bundle, except delay control.
    modes: Vec<Stretch>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stretch {
    name: String,
    from_s: f64,
    to_s: f64,
}

impl Timeline {
    pub(super) fn of(run: &Run) -> Self {
        let seconds = run.duration().as_secs_f64();
        let waits = |records| {
            let series = Series::of(records, run.start, run.end);
            let bins = series.bins_per_column(COLUMNS);
            let columns = series.grouped(bins).into_iter();
            let means: Vec<Option<f64>> = columns.map(|c| c.map(|c| rounded(c.mean, 2))).collect();
            (means, series.width.as_secs_f64() * bins as f64)
        };
        let (bottleneck_ms, wait_step_s) = waits(&run.bottleneck);
        let sendbox = at_sendbox(run);
        let sendbox_ms = if sendbox.is_empty() { Vec::new() } else { waits(&sendbox).0 };
        // Progress is recorded every 100 ms, so one second gives a smooth curve.
        let rate_step_s = (seconds / COLUMNS as f64).ceil().max(1.0);
        let at = |time: u64| (time as f64 - run.start.0 as f64) / SECOND;
        let phases = run.phases.iter().map(|p| Stretch {
            name: p.name.clone(),
            from_s: at(p.start),
            to_s: at(p.stop),
        });
        Self {
            arm: run.arm.clone(),
            seconds,
            wait_step_s,
            bottleneck_ms,
            sendbox_ms,
            rate_step_s,
            rates_mbps: rates(run, rate_step_s),
            phases: phases.collect(),
            modes: modes(run),
        }
    }
}

fn rates(run: &Run, step: f64) -> BTreeMap<String, Vec<f64>> {
    let columns = (run.duration().as_secs_f64() / step).ceil() as usize;
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for p in run.progress.iter().filter(|p| run.start.0 < p.time && p.time <= run.end.0) {
        // An interval that ends at a border belongs to the column before it.
        let column = ((p.time - run.start.0 - 1) as f64 / SECOND / step) as usize;
        let own = rates.entry(p.traffic.clone()).or_insert_with(|| vec![0.0; columns]);
        if let Some(rate) = own.get_mut(column) {
            *rate += p.bytes as f64 * 8.0 / 1e6 / step;
        }
    }
    for rate in rates.values_mut().flatten() {
        *rate = rounded(*rate, 2);
    }
    rates
}

fn modes(run: &Run) -> Vec<Stretch> {
    let at = |time: u64| rounded((time as f64 - run.start.0 as f64) / SECOND, 2);
    let first = run.ticks.first().map(|t| t.bundle.as_str());
    let mut modes: Vec<Stretch> = Vec::new();
    let mut last = None;
    let ticks = run.ticks.iter().filter(|t| Some(t.bundle.as_str()) == first);
    for tick in ticks.filter(|t| (run.start.0..run.end.0).contains(&t.time)) {
        let normal = is_mode(tick, "delay_control");
        let (time, goes_on) = (at(tick.time), last == Some(&tick.mode));
        last = Some(&tick.mode);
        match modes.last_mut() {
            Some(mode) if goes_on && !normal => mode.to_s = time,
            _ if normal => {}
            _ => modes.push(Stretch { name: tick.mode.clone(), from_s: time, to_s: time }),
        }
    }
    modes
}

const WIDTH: f64 = 560.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 32.0;
const WAITS: f64 = 130.0;
const RATES_TOP: f64 = TOP + WAITS + 36.0;
const RATES: f64 = 100.0;
const HEIGHT: f64 = RATES_TOP + RATES + 26.0;

/// Draws a panel for each arm, all on the same axes.
pub(super) fn panels(arms: &[Timeline]) -> Vec<(String, Svg)> {
    let waits = arms.iter().flat_map(|t| t.bottleneck_ms.iter().chain(&t.sendbox_ms)).flatten();
    let longest_wait = waits.copied().fold(0.0, f64::max);
    let rates = arms.iter().flat_map(|t| t.rates_mbps.values()).flatten();
    let highest_rate = rates.copied().fold(0.0, f64::max);
    let panel =
        |(i, t): (usize, &Timeline)| (t.arm.clone(), t.panel(i, longest_wait, highest_rate));
    arms.iter().enumerate().map(panel).collect()
}

impl Timeline {
    fn panel(&self, index: usize, longest_wait: f64, highest_rate: f64) -> Svg {
        let title = format!("Queues and rates over time, {}", self.arm);
        let desc = "Mean waits in milliseconds above, rates in Mbit/s below, by seconds.";
        let mut svg = Svg::new(&format!("t{index}"), &title, desc, WIDTH, HEIGHT);
        let width = WIDTH - LEFT - RIGHT;
        let waits = Plot::new((LEFT, TOP), (width, WAITS), self.seconds, longest_wait);
        let rates = Plot::new((LEFT, RATES_TOP), (width, RATES), self.seconds, highest_rate);
        for mode in &self.modes {
            let (x, to) = (waits.x(mode.from_s), waits.x(mode.to_s));
            svg.rect("shade", (x, TOP), ((to - x).max(0.5), rates.bottom() - TOP));
        }
        waits.rule(&mut svg, "ms");
        rates.rule(&mut svg, "Mbit/s");
        rates.scale(&mut svg, " s");
        for phase in &self.phases {
            let x = waits.x(phase.from_s);
            svg.line("phase", (x, TOP), (x, rates.bottom()));
            // The name of a phase within another would be on top of the other's.
            let holds = |other: &Stretch| {
                !ptr::eq(other, phase) && other.from_s <= phase.from_s && phase.to_s <= other.to_s
            };
            if !self.phases.iter().any(holds) {
                let middle = (x + waits.x(phase.to_s)) / 2.0;
                svg.text("tick", (middle, TOP - 18.0), Anchor::Middle, &phase.name);
            }
        }
        let points = |values: &[Option<f64>]| -> Vec<_> {
            let at =
                |(i, v): (usize, &Option<f64>)| v.map(|v| ((i as f64 + 0.5) * self.wait_step_s, v));
            values.iter().enumerate().map(at).collect()
        };
        let mut names = Vec::new();
        for (name, values) in [("bottleneck", &self.bottleneck_ms), ("sendbox", &self.sendbox_ms)] {
            let points = points(values);
            waits.curve(&mut svg, name, &points);
            if let Some((_, end)) = points.iter().rev().flatten().next() {
                names.push((name, name, *end));
            }
        }
        waits.names(&mut svg, &names);
        let mut names = Vec::new();
        for (i, (traffic, values)) in self.rates_mbps.iter().enumerate() {
            let at = |(i, v): (usize, &f64)| Some(((i as f64 + 0.5) * self.rate_step_s, *v));
            let points: Vec<_> = values.iter().enumerate().map(at).collect();
            rates.curve(&mut svg, class(i + 2), &points);
            names.push((class(i + 2), traffic.as_str(), values.last().copied().unwrap_or(0.0)));
        }
        rates.names(&mut svg, &names);
        svg
    }
}
