//! Links that do not serve at one rate: bursts, random walks, outages. They are made as traces.

use super::base::{Base, round, set_path};
use super::traffic;
use crate::cell::{Cell, Workload, packets};
use crate::family::Family;
use crate::random::Random;

/// The bits of one opportunity of a trace: 1504 bytes.
const OPPORTUNITY: f64 = 1504.0 * 8.0;

/// Draws a cell of one of these families.
pub(super) fn draw(cell: &mut Cell, random: &mut Random) {
    let (times, base, what) = match cell.family {
        Family::Bursts => bursts(random, false),
        Family::RandomBursts => bursts(random, true),
        Family::Cellular => cellular(random),
        _ => outages(cell, random),
    };
    cell.trace = Some(times);
    set_path(cell, &base, what);
    let share = if cell.workload == Workload::Requests { (0.3, 0.8) } else { (0.3, 0.7) };
    traffic::own(cell, random, 1, share);
}

/// A trace under construction.
#[derive(Default)]
struct Service {
    /// The part of an opportunity that is not in `times` yet.
    owed: f64,
    times: Vec<u32>,
}

impl Service {
    /// Adds service of this many kilobits at `time`, in ms.
    fn add(&mut self, time: u32, kilobits: f64) {
        self.owed += kilobits * 1e3 / OPPORTUNITY;
        let whole = self.owed as u32;
        self.owed -= f64::from(whole);
        self.times.extend(std::iter::repeat_n(time, whole as usize));
    }

    /// Ends the trace at `length`, in ms, where it begins again. Returns it and its rate in Mbit/s.
    fn end(mut self, length: u32) -> (Vec<u32>, f64) {
        self.times.push(length);
        let rate = self.times.len() as f64 * OPPORTUNITY / (f64::from(length) * 1e3);
        (self.times, rate)
    }
}

/// Bursts every 1 to 40 ms, or at random times of that mean.
fn bursts(random: &mut Random, at_random: bool) -> (Vec<u32>, Base, String) {
    let base = Base::draw(random, (5.0, 200.0), (10.0, 150.0));
    let period = round(random.log_between(1.0, 40.0).max(1.0));
    let length = 10_000.0;
    let mut service = Service::default();
    let mut time = 0.0;
    while time < length {
        let gap =
            if at_random { random.exponential(period).clamp(0.2, 8.0 * period) } else { period };
        time += gap;
        service.add(time.min(length) as u32, base.rate * gap);
    }
    let kind = if at_random { "bursts at random, " } else { "bursts every " };
    let mean = if at_random { "ms apart" } else { "ms" };
    let what = format!("{kind}{period} {mean}, {} packets", base.buffer);
    (service.end(length as u32).0, base, what)
}

/// A random walk of the rate over a factor of thirty, with outages of 100 ms to 1 s.
fn cellular(random: &mut Random) -> (Vec<u32>, Base, String) {
    let top = round(random.log_between(8.0, 120.0));
    let rtt = round(random.log_between(25.0, 120.0));
    let step = random.between(0.02, 0.2);
    let outages = random.between(0.0, 0.15);
    let (mut level, mut out) = (0.6, 0.0);
    let mut service = Service::default();
    let length = 60_000;
    for time in 0..length {
        if time % 20 == 0 {
            level += step * random.between(-1.0, 1.0);
            // A walk that turns at its borders.
            if level > 1.0 {
                level = 2.0 - level;
            }
            level = level.abs().max(0.03);
            if out <= 0.0 && random.chance(outages * 0.02) {
                out = random.log_between(100.0, 1000.0);
            }
        }
        out -= 1.0;
        if out <= 0.0 {
            service.add(time, top * level);
        }
    }
    let (times, rate) = service.end(length);
    let buffer = (packets(rate * 1e3) * random.log_between(0.1, 3.0)).max(50.0) as u32;
    let base = Base { rate: round(rate), rtt, buffer };
    (times, base, format!("a walk up to {top} Mbit/s, {buffer} packets"))
}

/// A constant rate with outages of 0.1 to 5 s every some seconds, and a buffer of up to 2 s.
fn outages(cell: &mut Cell, random: &mut Random) -> (Vec<u32>, Base, String) {
    let base = Base::draw(random, (2.0, 100.0), (10.0, 150.0));
    let long = round(random.log_between(0.1, 5.0));
    let every = round(random.between(3.0, 4.0) * long + random.between(2.0, 8.0));
    let buffer = (packets(base.rate * 1e3) * random.log_between(0.1, 2.0)).max(50.0) as u32;
    let length = (every * 1000.0) as u32;
    let dark = (long * 1000.0) as u32;
    let mut service = Service::default();
    (0..length - dark).for_each(|time| service.add(time, base.rate));
    let (times, rate) = service.end(length);
    cell.at_least = 3.0 * every;
    let what = format!("{long} s without service every {every} s, {buffer} packets");
    (times, Base { rate: round(rate), buffer, ..base }, what)
}
