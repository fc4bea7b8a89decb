//! An experiment: a file of cells, each of which is run with every arm.

use std::path::Path;

use forebay_config::{ConfigError, DurationValue, RateValue, SizeValue, Source, Spanned};
use serde::Deserialize;

use super::order::{Order, Queue, Work};
use crate::Kernel;

/// An arm: a kernel and the position of its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The kernel without the patch.
    Unpatched,
    /// The patched kernel with the switch off.
    Off,
    /// The patched kernel with the switch on.
    Zd,
}

impl Arm {
    /// All arms in the order in which they are run and shown.
    pub const ALL: [Self; 3] = [Self::Unpatched, Self::Off, Self::Zd];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unpatched => "unpatched",
            Self::Off => "off",
            Self::Zd => "zd",
        }
    }

    /// The kernel of the arm.
    #[must_use]
    pub fn kernel(self) -> Kernel {
        match self {
            Self::Unpatched => Kernel::Unpatched,
            Self::Off | Self::Zd => Kernel::Zd,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    about: String,
    warm_up: Spanned<DurationValue>,
    duration: Spanned<DurationValue>,
    /// The number of runs of each cell with each arm, with seeds from 1.
    runs: Spanned<u32>,
    rate: Spanned<RateValue>,
    burst: Spanned<SizeValue>,
    /// The delay of acknowledgements.
    delay: Spanned<DurationValue>,
    limits: Spanned<Vec<u32>>,
    flows: Spanned<Vec<u32>>,
    /// The transmit queues of the device; one by default.
    queues: Option<Spanned<u32>>,
    /// Whether the device is a TUN device.
    #[serde(default)]
    tun: bool,
    /// The rate of each flow; unlimited by default.
    pace: Option<Spanned<RateValue>>,
}

/// An experiment with the kernel's backpressure.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The title of the experiment.
    pub title: String,
    /// The purpose of the experiment.
    pub about: String,
    /// The number of runs of each cell with each arm.
    pub runs: u32,
    /// The cells to run.
    pub cells: Vec<Cell>,
}

/// A cell: a queue and the work over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The queue of the sender.
    pub queue: Queue,
    /// The work of its flows.
    pub work: Work,
}

impl Cell {
    /// The order for a guest of `arm`.
    #[must_use]
    pub fn order(&self, arm: Arm) -> Order {
        Order { backpressure: arm == Arm::Zd, queue: self.queue, work: self.work }
    }
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    ///
    /// With the line and the key of the mistake.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = forebay_config::load::<File>(path)?;
        file.check(&source)
    }
}

impl File {
    fn check(self, source: &Source) -> Result<Experiment, ConfigError> {
        let within = |key: &str, value: &Spanned<u64>, from: u64, to: u64| {
            if (from..=to).contains(value.get_ref()) {
                return Ok(*value.get_ref());
            }
            Err(source.error_at(value.span(), key, format!("must be from {from} to {to}")))
        };
        let spanned = |span: std::ops::Range<usize>, value: u64| Spanned::new(span, value);
        let seconds = |key: &str, value: &Spanned<DurationValue>| {
            within(key, &spanned(value.span(), value.get_ref().0.0 / 1_000_000_000), 1, 600)
        };
        let (warm_up, length) =
            (seconds("warm_up", &self.warm_up)?, seconds("duration", &self.duration)?);
        let runs =
            within("runs", &spanned(self.runs.span(), u64::from(*self.runs.get_ref())), 1, 100)?;
        let bits = |value: &Spanned<RateValue>| spanned(value.span(), value.get_ref().0.as_bps());
        let rate = within("rate", &bits(&self.rate), 1_000_000, 100_000_000_000)?;
        let pace = match &self.pace {
            Some(pace) => within("pace", &bits(pace), 1_000, 100_000_000_000)?,
            None => 0,
        };
        let burst =
            within("burst", &spanned(self.burst.span(), self.burst.get_ref().0.0), 1_600, 1 << 30)?;
        let queues = match &self.queues {
            Some(own) => {
                let most = if self.tun { 1 } else { 16 };
                within("queues", &spanned(own.span(), u64::from(*own.get_ref())), 1, most)? as u32
            }
            None => 1,
        };
        let tun = self.tun;
        let delay = self.delay.get_ref().0.0 / 1_000;
        let delay = within("delay", &spanned(self.delay.span(), delay), 0, 10_000_000)?;
        let mut cells = Vec::new();
        for &limit in self.limits.get_ref() {
            within("limits", &spanned(self.limits.span(), u64::from(limit)), 1, 1_000_000)?;
            for &flows in self.flows.get_ref() {
                within("flows", &spanned(self.flows.span(), u64::from(flows)), 1, 20_000)?;
                cells.push(Cell {
                    queue: Queue { rate, burst, limit, delay, queues, tun },
                    work: Work::Flows { flows, pace, warm_up, seconds: length },
                });
            }
        }
        let (title, about) = (self.title, self.about);
        Ok(Experiment { title, about, runs: runs as u32, cells })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"x\"\nwarm_up = \"1 s\"\nduration = \"2 s\"\nruns = 3\n\
                        rate = \"1 Gbit/s\"\nburst = \"128 kB\"\ndelay = \"5 ms\"\n\
                        limits = [1000, 100]\nflows = [500]\n";

    fn parse(text: &str) -> Result<Experiment, String> {
        let (file, source) =
            forebay_config::parse::<File>("x.toml".as_ref(), text).map_err(|e| e.to_string())?;
        file.check(&source).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_has_a_cell_for_each_limit_and_number_of_flows() {
        let experiment = parse(TEXT).unwrap();
        assert_eq!((experiment.runs, experiment.cells.len()), (3, 2));
        let queue = Queue {
            rate: 1_000_000_000,
            burst: 128_000,
            limit: 100,
            delay: 5_000,
            queues: 1,
            tun: false,
        };
        let work = Work::Flows { flows: 500, pace: 0, warm_up: 1, seconds: 2 };
        assert_eq!(experiment.cells[1], Cell { queue, work });
        let on = experiment.cells[1].order(Arm::Zd);
        assert!(on.backpressure && !experiment.cells[1].order(Arm::Off).backpressure);
    }

    #[test]
    fn a_mistake_is_named() {
        let error = parse(&TEXT.replace("[500]", "[0]")).unwrap_err();
        assert!(error.contains("flows") && error.contains("from 1 to 20000"), "{error}");
        let error = parse(&TEXT.replace("runs = 3", "runs = 0")).unwrap_err();
        assert!(error.contains("runs"), "{error}");
    }
}
