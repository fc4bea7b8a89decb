//! Cells whose rate and round-trip time are drawn at random, instead of a full cross product.

use std::ops::RangeInclusive;

use forebay_config::{ConfigError, DurationValue, RateValue, Spanned};
use forebay_sim::Random;
use forebay_units::{Nanos, Rate};
use serde::Deserialize;

use super::Path;
use super::conditions::above_zero;
use super::grid::Cell;
use super::rules::{Check, MAX_RTT, MAX_RUNS};

/// The unit of drawn rates in bit/s, so that they are written with one decimal.
const RATE_UNIT: u64 = 100_000;
/// The unit of drawn round-trip times in nanoseconds.
const RTT_UNIT: u64 = 100_000;

/// `[draw]`: the number of cells, and the ranges of their paths.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DrawTable {
    pub(super) cells: Spanned<u32>,
    /// The seed of the draw; 1 by default.
    pub(super) seed: Option<u64>,
    /// The lowest and the highest rate.
    pub(super) rate: Spanned<[RateValue; 2]>,
    /// The shortest and the longest round-trip time.
    pub(super) rtt: Spanned<[DurationValue; 2]>,
}

impl DrawTable {
    /// Checks the table. Returns the lowest rate and the shortest round-trip time.
    pub(super) fn lowest(&self, check: &Check<'_>) -> Result<Path, ConfigError> {
        let ([rate, highest], [rtt, longest]) = (self.rate.get_ref(), self.rtt.get_ref());
        above_zero(check, rate.0, self.rate.span(), "draw.rate")?;
        let first_is_lower = "must be two values, the lower one first";
        if highest.0 < rate.0 {
            return Err(check.0.error_at(self.rate.span(), "draw.rate", first_is_lower));
        }
        if rtt.0 == Nanos::ZERO || longest.0 < rtt.0 {
            let what = format!("{first_is_lower}, and above zero");
            return Err(check.0.error_at(self.rtt.span(), "draw.rtt", what));
        }
        if longest.0 > MAX_RTT {
            return Err(check.0.error_at(self.rtt.span(), "draw.rtt", "must be at most 2 s"));
        }
        if !(1..=MAX_RUNS).contains(&(*self.cells.get_ref() as usize)) {
            let what = format!("must be 1 to {MAX_RUNS}");
            return Err(check.0.error_at(self.cells.span(), "draw.cells", what));
        }
        Ok(Path { rate: rate.0, rtt: rtt.0 })
    }

    /// Draws the cells, each from one of `combinations` of the grid's other axes.
    ///
    /// Every combination occurs equally often, up to one. Rates and round-trip times are drawn
    /// uniformly on a logarithmic scale, so that each doubling is as likely as another one.
    pub(super) fn cells<'a>(&self, combinations: &[Cell<'a>]) -> Vec<Cell<'a>> {
        let mut random = Random::new(self.seed.unwrap_or(1), 0);
        let ([low, high], [short, long]) = (self.rate.get_ref(), self.rtt.get_ref());
        let (rates, rtts) = (low.0.as_bps()..=high.0.as_bps(), short.0.0..=long.0.0);
        let (mut cells, mut left) = (Vec::new(), Vec::new());
        for _ in 0..*self.cells.get_ref() {
            if left.is_empty() {
                left = combinations.iter().collect();
            }
            let mut cell = left.swap_remove(random.below(left.len() as u64) as usize).clone();
            let rate = Rate::from_bps(between(&mut random, &rates, RATE_UNIT));
            cell.path = Path { rate, rtt: Nanos(between(&mut random, &rtts, RTT_UNIT)) };
            cells.push(cell);
        }
        cells
    }
}

/// Draws a multiple of `unit` within `range`, uniformly on a logarithmic scale. If none is within,
/// it is the nearer end of the range.
fn between(random: &mut Random, range: &RangeInclusive<u64>, unit: u64) -> u64 {
    let share = random.below(1 << 52) as f64 / (1_u64 << 52) as f64;
    let (low, high) = (*range.start() as f64, *range.end() as f64);
    let drawn = (low * (high / low).powf(share) / unit as f64).round() as u64 * unit;
    drawn.clamp(*range.start(), *range.end())
}

#[cfg(test)]
mod tests {
    use forebay_sim::Capacity;

    use super::super::parse;

    /// A scenario of `cells` cells over ten combinations.
    fn scenario(cells: u32, draw: &str) -> String {
        format!(
            "name = \"drawn\"\nduration = \"1 s\"\n[path]\n\
             queue = {{ kind = \"fifo\", limit = \"1 bdp\" }}\n[draw]\ncells = {cells}\n{draw}\n\
             [grid]\nflows = [1, 2, 3, 4, 5]\ncongestion = [\"reno\", \"cubic\"]\n\
             [[traffic]]\nname = \"bulk\"\nkind = \"bulk\"\n\
             [[arm]]\nname = \"plain\"\nsendbox = \"forward\"\n"
        )
    }

    const RANGES: &str = "rate = [\"24 Mbit/s\", \"96 Mbit/s\"]\nrtt = [\"10 ms\", \"100 ms\"]";

    fn drawn(cells: u32, draw: &str) -> Vec<super::super::Scenario> {
        parse("drawn.toml".as_ref(), &scenario(cells, draw)).unwrap().cells
    }

    #[test]
    fn each_combination_is_drawn_equally_often_with_paths_of_its_own() {
        let cells = drawn(400, RANGES);
        for flows in ["1", "2", "3", "4", "5"] {
            for congestion in ["reno", "cubic"] {
                let same = cells.iter().filter(|cell| {
                    cell.labels["flows"] == flows && cell.labels["congestion"] == congestion
                });
                assert_eq!(same.count(), 40, "{flows} {congestion}");
            }
        }
        let rates: Vec<f64> = cells.iter().map(|cell| cell.path.rate.as_mbps_f64()).collect();
        let rtts: Vec<f64> = cells.iter().map(|cell| cell.path.rtt.as_millis_f64()).collect();
        assert!(rates.iter().all(|mbps| (24.0..=96.0).contains(mbps)));
        assert!(rtts.iter().all(|ms| (10.0..=100.0).contains(ms)));
        // Half of them are below the geometric mean: 200 expected, sigma 10.
        for (values, middle) in [(&rates, 48.0), (&rtts, 31.6)] {
            let below = values.iter().filter(|value| **value < middle).count();
            assert!((150..250).contains(&below), "{below}");
        }
        let rate = |cell: &super::super::Scenario| Capacity::Constant(cell.path.rate);
        assert!(cells.iter().all(|cell| cell.conditions.capacity == rate(cell)));
    }

    #[test]
    fn the_seed_of_the_draw_decides() {
        let of = |seed: &str| drawn(10, &format!("{RANGES}\n{seed}"));
        assert_eq!(of(""), of("seed = 1"));
        assert!(of("seed = 2") != of("seed = 1"));
        assert_eq!(drawn(20, RANGES)[..10], drawn(10, RANGES));
    }

    #[test]
    fn a_wrong_draw_is_refused() {
        let error = |cells, draw: &str| {
            parse("d.toml".as_ref(), &scenario(cells, draw)).unwrap_err().to_string()
        };
        let rtt = "rtt = [\"10 ms\", \"100 ms\"]";
        for (draw, expected) in [
            (format!("rate = [\"2 Mbit/s\", \"1 Mbit/s\"]\n{rtt}"), "draw.rate: must be two"),
            (format!("rate = [\"0 Mbit/s\", \"1 Mbit/s\"]\n{rtt}"), "draw.rate: must be above"),
            (RANGES.replace("100 ms", "1 ms"), "draw.rtt: must be two values"),
            (RANGES.replace("100 ms", "3 s"), "draw.rtt: must be at most 2 s"),
            (format!("{RANGES}\n[path.x]"), "path"),
        ] {
            assert!(error(1, &draw).contains(expected), "{}", error(1, &draw));
        }
        assert!(error(0, RANGES).contains("draw.cells: must be 1 to"));
        let both = scenario(1, RANGES).replace("[grid]", "[grid]\nrate = [\"1 Mbit/s\"]");
        let both = parse("d.toml".as_ref(), &both).unwrap_err().to_string();
        assert!(both.contains("grid.rate: is drawn: remove it"), "{both}");
    }
}
