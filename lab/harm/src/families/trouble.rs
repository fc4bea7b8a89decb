//! Links with one rate that have something else: jitter, loss, steps, buffers of any length, AQMs,
//! faults.

use std::fmt::Write as _;

use super::base::{Base, round, set_path, set_queue};
use super::traffic;
use crate::cell::{Cell, Workload, packets};
use crate::family::Family;
use crate::random::Random;

/// The ranges of rates, in Mbit/s, and round trips, in ms, of families that ask for nothing else.
const RATES: (f64, f64) = (2.0, 300.0);
const RTTS: (f64, f64) = (5.0, 200.0);

/// Draws a cell of one of these families.
pub(super) fn draw(cell: &mut Cell, random: &mut Random) {
    let (rates, rtts) = match cell.family {
        Family::Slow => ((0.5, 5.0), (10.0, 200.0)),
        Family::Fast => ((300.0, 2000.0), (2.0, 60.0)),
        Family::Long => ((2.0, 50.0), (150.0, 800.0)),
        Family::Deep => ((1.0, 50.0), RTTS),
        _ => (RATES, RTTS),
    };
    let mut base = Base::draw(random, rates, rtts);
    let second = packets(base.rate * 1e3);
    match cell.family {
        Family::Shallow => base.buffer = random.log_between(5.0, 100.0) as u32,
        Family::Deep => base.buffer = (second * random.log_between(1.0, 12.0)).max(50.0) as u32,
        // Ten milliseconds of the rate or some packets, as a token bucket without a queue has.
        Family::Policer => {
            base.buffer = (second * random.log_between(0.005, 0.03)).max(10.0) as u32;
        }
        _ => {}
    }
    let what = format!("{} packets", base.buffer);
    set_path(cell, &base, what);
    let share = match cell.workload {
        Workload::Requests => (0.3, 0.85),
        _ => (0.3, 0.7),
    };
    if cell.family == Family::Thin {
        cell.workload = Workload::Thin;
    }
    traffic::own(cell, random, 1, share);
    feature(cell, random, &base);
}

/// Adds what the family is about to the path.
fn feature(cell: &mut Cell, random: &mut Random, base: &Base) {
    match cell.family {
        Family::Jitter | Family::Reordering => {
            let up_to = round(random.log_between(1.0, 20.0));
            let reorders = cell.family == Family::Reordering;
            let _ = writeln!(
                cell.path,
                "jitter = {{ up_to = \"{} us\", reorders = {reorders} }}",
                up_to * 1e3
            );
            let _ = write!(cell.what, ", jitter of {up_to} ms");
        }
        Family::Loss => loss(cell, random),
        Family::Steps => {
            let (low, high) = (random.between(0.12, 0.7), random.between(1.3, 4.0));
            let every = random.between(3.0, 10.0);
            let mut time = 4.0;
            let mut steps = Vec::new();
            for step in 0..8 {
                let factor = [low, 1.0, high, 1.0][step % 4];
                let rate = (base.rate * factor * 1e3).round();
                steps.push(format!(
                    "{{ at = \"{} ms\", rate = \"{rate} kbit/s\" }}",
                    (time * 1e3_f64).round()
                ));
                time += every;
            }
            cell.at_least = 3.0 * every;
            let _ = writeln!(cell.path, "steps = [{}]", steps.join(", "));
            let _ = write!(cell.what, ", steps to {low:.2} and {high:.2} of the rate");
        }
        Family::Aqm => {
            let kind = random.one_of(&["fq_codel", "codel", "pie", "sfq"]);
            let limit = base.buffer.max(200);
            set_queue(cell, base, kind, limit);
            let _ = write!(cell.what, ", {kind} at the bottleneck");
        }
        Family::Faults => {
            if random.chance(0.5) {
                let dead = round(random.log_between(0.2, 5.0)) * 1e3;
                let _ = write!(
                    cell.rest,
                    "[[fault]]\nat = \"6 s\"\nprocess = \"receivebox\"\nback = \"{} ms\"\n\n",
                    6000.0 + dead
                );
                let _ = write!(cell.what, ", the receivebox is away for {dead} ms");
            } else {
                let rtt = round(base.rtt * random.log_between(0.4, 3.0));
                let _ = write!(
                    cell.rest,
                    "[[fault]]\nat = \"7 s\"\nrtt = \"{} us\"\n\n",
                    (rtt * 1e3).round()
                );
                let _ = write!(cell.what, ", from 7 s on {rtt} ms");
            }
        }
        _ => {}
    }
}

fn loss(cell: &mut Cell, random: &mut Random) {
    match random.whole(0, 2) {
        0 => {
            let share = round(random.log_between(0.01, 3.0));
            let _ = writeln!(cell.path, "loss = \"{share} %\"");
            let _ = write!(cell.what, ", {share} % lost");
        }
        1 => {
            let begin = round(random.log_between(0.005, 0.3));
            let end = round(random.between(5.0, 50.0));
            let _ = writeln!(cell.path, "loss = {{ begin = \"{begin} %\", end = \"{end} %\" }}");
            let _ = write!(cell.what, ", bursts of loss, {begin} % begin and {end} % end");
        }
        _ => {
            let share = round(random.between(5.0, 50.0));
            let _ = writeln!(cell.path, "feedback_loss = \"{share} %\"");
            let _ = write!(cell.what, ", {share} % of feedback lost");
        }
    }
}
