//! The families of paths, and how a cell of each is drawn.
//!
//! A family has one feature of real links with wide ranges of its parameters: what radio links,
//! schedulers, policers, deep buffers and other people's traffic do. Everything else of the path is
//! drawn alike for all families.

mod service;
mod traffic;
mod trouble;

use std::fmt::Write as _;
use std::str::FromStr;

use serde::Serialize;

use crate::cell::{Cell, Policy, Workload};
use crate::random::Random;

/// A family of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// A constant rate and a first-in-first-out buffer: what the loop was made for.
    Plain,
    /// Service in bursts, 1 to 40 ms apart, as Wi-Fi, LTE and Starlink have.
    Bursts,
    /// Service in bursts at random times.
    RandomBursts,
    /// Delay that varies, in order.
    Jitter,
    /// Delay that varies and reorders.
    Reordering,
    /// A rate that walks at random, with outages, as of a moving phone.
    Cellular,
    /// Rates that step up and down.
    Steps,
    /// Outages of 0.1 to 5 s, and the queue after them.
    Outages,
    /// A rate enforced by dropping what comes in bursts.
    Policer,
    /// Random and bursty loss, of data or of feedback.
    Loss,
    /// Buffers of 5 packets to half a bandwidth-delay product.
    Shallow,
    /// Buffers of up to 12 s.
    Deep,
    /// Rates from 0.5 to 5 Mbit/s.
    Slow,
    /// Rates from 300 Mbit/s to 2 Gbit/s.
    Fast,
    /// Round trips of 150 to 800 ms.
    Long,
    /// An AQM at the bottleneck.
    Aqm,
    /// Loss-based flows of others.
    Elastic,
    /// BBR flows of others.
    Bbr,
    /// Requests, constant streams, video, on-and-off traffic of others.
    Inelastic,
    /// Two to six bundles at one bottleneck.
    Bundles,
    /// A bundle of bundles.
    Nested,
    /// Hardly any traffic.
    Thin,
    /// A receivebox that dies, a route that changes.
    Faults,
}

/// All families, in the order in which cells are drawn from them.
pub(crate) const ALL: [Family; 23] = [
    Family::Plain,
    Family::Bursts,
    Family::RandomBursts,
    Family::Jitter,
    Family::Reordering,
    Family::Cellular,
    Family::Steps,
    Family::Outages,
    Family::Policer,
    Family::Loss,
    Family::Shallow,
    Family::Deep,
    Family::Slow,
    Family::Fast,
    Family::Long,
    Family::Aqm,
    Family::Elastic,
    Family::Bbr,
    Family::Inelastic,
    Family::Bundles,
    Family::Nested,
    Family::Thin,
    Family::Faults,
];

impl Family {
    /// The name on pages, in file names and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Bursts => "bursts",
            Self::RandomBursts => "random_bursts",
            Self::Jitter => "jitter",
            Self::Reordering => "reordering",
            Self::Cellular => "cellular",
            Self::Steps => "steps",
            Self::Outages => "outages",
            Self::Policer => "policer",
            Self::Loss => "loss",
            Self::Shallow => "shallow",
            Self::Deep => "deep",
            Self::Slow => "slow",
            Self::Fast => "fast",
            Self::Long => "long",
            Self::Aqm => "aqm",
            Self::Elastic => "elastic",
            Self::Bbr => "bbr",
            Self::Inelastic => "inelastic",
            Self::Bundles => "bundles",
            Self::Nested => "nested",
            Self::Thin => "thin",
            Self::Faults => "faults",
        }
    }
}

/// A name that is not a family's.
#[derive(Debug, thiserror::Error)]
#[error("no family is called `{name}`: the families are {}", names())]
pub struct UnknownFamily {
    name: String,
}

fn names() -> String {
    ALL.map(Family::name).join(", ")
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        let found = ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| UnknownFamily { name: name.to_owned() })
    }
}

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
    fn draw(random: &mut Random, rates: (f64, f64), rtts: (f64, f64)) -> Self {
        let rate = round(random.log_between(rates.0, rates.1));
        let rtt = round(random.log_between(rtts.0, rtts.1));
        let product = rate * 1e3 * rtt / 8.0 / 1514.0;
        let buffer = (product * random.log_between(0.5, 4.0)).clamp(30.0, 50_000.0) as u32;
        Self { rate, rtt, buffer }
    }
}

/// Three significant digits, so that scenario files can be read.
fn round(value: f64) -> f64 {
    let scale = 10_f64.powi(2 - value.log10().floor() as i32);
    (value * scale).round() / scale
}

/// Cell `number` of the map with this `seed`.
pub fn draw(seed: u64, number: u64) -> Cell {
    let mut random = Random::new(seed, number);
    let family = ALL[(number % ALL.len() as u64) as usize];
    let mut cell = Cell {
        number,
        family,
        workload: workload(&mut random),
        policy: policy(&mut random),
        rate: 0.0,
        rtt: 0.0,
        what: String::new(),
        shared: false,
        path: String::new(),
        rest: String::new(),
        sites: 1,
        nested: false,
        trace: None,
        at_least: 0.0,
    };
    match family {
        Family::Bursts | Family::RandomBursts | Family::Cellular | Family::Outages => {
            service::draw(&mut cell, &mut random);
        }
        Family::Elastic | Family::Bbr | Family::Inelastic | Family::Bundles | Family::Nested => {
            traffic::draw_shared(&mut cell, &mut random);
        }
        Family::Plain
        | Family::Jitter
        | Family::Reordering
        | Family::Steps
        | Family::Policer
        | Family::Loss
        | Family::Shallow
        | Family::Deep
        | Family::Slow
        | Family::Fast
        | Family::Long
        | Family::Aqm
        | Family::Thin
        | Family::Faults => trouble::draw(&mut cell, &mut random),
    }
    cell
}

fn workload(random: &mut Random) -> Workload {
    match random.unit() {
        u if u < 0.45 => Workload::Mix,
        u if u < 0.75 => Workload::Requests,
        u if u < 0.9 => Workload::Bulk,
        _ => Workload::RealTime,
    }
}

fn policy(random: &mut Random) -> Policy {
    match random.unit() {
        u if u < 0.7 => Policy::Sfq,
        u if u < 0.85 => Policy::FqCodel,
        u if u < 0.95 => Policy::Fifo,
        _ => Policy::Pie,
    }
}

/// Sets the path of `cell` to `base`, with a first-in-first-out queue; a trace replaces the rate.
fn set_path(cell: &mut Cell, base: &Base, what: String) {
    (cell.rate, cell.rtt, cell.what) = (base.rate, base.rtt, what);
    set_queue(cell, base, &format!("fifo\", limit = \"{} packets", base.buffer));
}

/// Likewise with another queue: what stands between `kind = "` and the closing quote.
fn set_queue(cell: &mut Cell, base: &Base, queue: &str) {
    cell.path.clear();
    if cell.trace.is_none() {
        // Writing to a string cannot fail.
        let _ = writeln!(cell.path, "rate = \"{} kbit/s\"", (base.rate * 1e3).round());
    }
    let _ = writeln!(
        cell.path,
        "rtt = \"{} us\"\nqueue = {{ kind = \"{queue}\" }}",
        (base.rtt * 1e3).round()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn every_family_gives_scenarios_that_the_laboratory_takes() {
        let dir = std::env::temp_dir().join(format!("fb-harm-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut families = BTreeSet::new();
        for number in 0..3 * ALL.len() as u64 {
            let cell = draw(5, number);
            families.insert(cell.family);
            let file = cell.write(&dir, 2, number % 2 == 0).unwrap();
            let experiment = forebay_lab::scenario::load(&file)
                .unwrap_or_else(|e| panic!("{e}\n{}", cell.scenario(2, false)));
            assert_eq!((experiment.cells.len(), experiment.seeds.len()), (1, 2));
            let mean = experiment.cells[0].path.rate.as_mbps_f64();
            assert!((0.7..1.4).contains(&(mean / cell.rate)), "{mean} for {cell}");
        }
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(families.len(), ALL.len());
    }

    #[test]
    fn families_are_known_by_their_names() {
        for family in ALL {
            assert_eq!(family.name().parse::<Family>().unwrap(), family);
        }
        let error = "wifi".parse::<Family>().unwrap_err().to_string();
        assert!(error.starts_with("no family is called `wifi`: the families are plain, bursts"));
    }

    #[test]
    fn a_cell_depends_on_the_seed_and_its_number_only() {
        assert_eq!(draw(1, 40), draw(1, 40));
        assert_ne!(draw(1, 40).path, draw(2, 40).path);
        assert_ne!(draw(1, 40).path, draw(1, 40 + ALL.len() as u64).path);
    }
}
