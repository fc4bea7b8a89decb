//! The path that the families add their features to, as lines of a scenario.

use std::fmt::Write as _;

use crate::cell::{Cell, packets};
use crate::random::Random;

/// The path that a family's feature is added to.
pub(crate) struct Base {
    /// The rate in Mbit/s.
    pub(crate) rate: f64,
    /// The round trip of the empty path in ms.
    pub(crate) rtt: f64,
    /// The limit of the bottleneck's queue, in packets.
    pub(crate) buffer: u32,
}

impl Base {
    /// A path of these ranges, with a buffer of half to four bandwidth-delay products and at least
    /// 30 packets.
    pub(crate) fn draw(random: &mut Random, rates: (f64, f64), rtts: (f64, f64)) -> Self {
        let rate = round(random.log_between(rates.0, rates.1));
        let rtt = round(random.log_between(rtts.0, rtts.1));
        let buffer =
            (packets(rate * rtt) * random.log_between(0.5, 4.0)).clamp(30.0, 50_000.0) as u32;
        Self { rate, rtt, buffer }
    }
}

/// Three significant digits, so that scenario files can be read.
pub(super) fn round(value: f64) -> f64 {
    let scale = 10_f64.powi(2 - value.log10().floor() as i32);
    (value * scale).round() / scale
}

/// Sets the path of `cell` to `base`, with a first-in-first-out queue; a trace replaces the rate.
pub(super) fn set_path(cell: &mut Cell, base: &Base, what: String) {
    (cell.rate, cell.rtt, cell.what) = (base.rate, base.rtt, what);
    set_queue(cell, base, "fifo", base.buffer);
}

/// Sets the lines of the path, with a queue of this kind that holds `limit` packets.
pub(super) fn set_queue(cell: &mut Cell, base: &Base, kind: &'static str, limit: u32) {
    (cell.queue, cell.buffer) = (kind, limit);
    cell.path.clear();
    if cell.trace.is_none() {
        // Writing to a string cannot fail.
        let _ = writeln!(cell.path, "rate = \"{} kbit/s\"", (base.rate * 1e3).round());
    }
    let _ = writeln!(cell.path, "rtt = \"{} us\"", (base.rtt * 1e3).round());
}
