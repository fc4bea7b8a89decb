//! The map's picture: each cell by two axes at a time, the worse ones marked.

use forebay_picture::svg::{Anchor, Svg, sheet};

use crate::map::{HarmMap, Judged};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 16.0;

/// An axis with a logarithmic scale.
struct Axis {
    low: f64,
    high: f64,
    name: &'static str,
    ticks: &'static [f64],
    of: fn(&Judged) -> f64,
}

const RATE: Axis = Axis {
    low: 0.4,
    high: 2500.0,
    name: "rate, Mbit/s",
    ticks: &[1.0, 10.0, 100.0, 1000.0],
    of: |judged| judged.cell.rate,
};
const RTT: Axis = Axis {
    low: 1.5,
    high: 1000.0,
    name: "round trip of the empty path, ms",
    ticks: &[2.0, 10.0, 50.0, 200.0, 800.0],
    of: |judged| judged.cell.rtt,
};
const GOODPUT: Axis = Axis {
    low: 0.02,
    high: 4.0,
    name: "goodput over that without a box",
    ticks: &[0.05, 0.2, 0.5, 1.0, 2.0],
    of: Judged::goodput,
};
const WAIT: Axis = Axis {
    low: 0.1,
    high: 12_000.0,
    name: "wait at the bottleneck without a box, 99th percentile, ms",
    ticks: &[1.0, 10.0, 100.0, 1000.0, 10_000.0],
    of: |judged| judged.status_quo.bottleneck_p99_ms,
};

impl Axis {
    /// The place of `value`, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let place = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        place.clamp(0.0, 1.0)
    }
}

/// The sheet of `map`: rate by round trip, rate by goodput, wait by goodput.
pub(crate) fn draw(map: &HarmMap) -> String {
    let panels = [(RATE, RTT), (RATE, GOODPUT), (WAIT, GOODPUT)];
    let pictures = panels.into_iter().enumerate().map(|(n, (x, y))| {
        let heading = format!("{} and {}", y.name, x.name);
        (heading, panel(map, n, &x, &y))
    });
    let title =
        format!("{} of {} cells are worse than without a box", map.worse(), map.cells.len());
    sheet(&title, pictures.collect(), 2)
}

fn panel(map: &HarmMap, number: usize, x: &Axis, y: &Axis) -> Svg {
    let title = format!("{} against {}", y.name, x.name);
    let desc = "A dot for each path; the larger ones are worse than without a box.";
    let mut svg = Svg::new(&format!("harm{number}"), &title, desc, WIDTH, HEIGHT);
    let at_x = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
    let at_y = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - BOTTOM - TOP);
    for tick in x.ticks {
        svg.line("grid", (at_x(*tick), TOP), (at_x(*tick), HEIGHT - BOTTOM));
        let place = (at_x(*tick), HEIGHT - BOTTOM + 16.0);
        svg.text("tick", place, Anchor::Middle, &tick.to_string());
    }
    for tick in y.ticks {
        svg.line("grid", (LEFT, at_y(*tick)), (WIDTH - RIGHT, at_y(*tick)));
        svg.text("tick", (LEFT - 6.0, at_y(*tick) + 4.0), Anchor::End, &tick.to_string());
    }
    let middle = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 6.0);
    svg.text("tick", middle, Anchor::Middle, x.name);
    // Those that are worse come last, on top of the others.
    for worse in [false, true] {
        for judged in map.cells.iter().filter(|c| c.verdict.is_worse() == worse) {
            let (class, radius) = if worse { ("dot c1", 3.5) } else { ("dot", 2.0) };
            svg.circle(class, (at_x((x.of)(judged)), at_y((y.of)(judged))), radius);
        }
    }
    svg
}
