use std::collections::HashSet;
use std::ops::Range;
use std::path::Path as FilePath;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use forebay_units::{Bytes, Nanos, Rate};

use super::file::{ArmTable, File, QueueKindName, QueueTable, SendboxValue};
use super::model::{Arm, Experiment, IpVersion, Path, Queue, QueueKind, Scenario, Sendbox};
use super::{TrafficKind, fault, traffic_check};

/// Full-sized packets that a run may carry: each is 16 bytes in a packet log, so 1.6 GB of them.
const MAX_PACKETS: u64 = 100_000_000;
/// Full-sized packets that a queue may hold: 1.5 GB of buffers.
const MAX_QUEUE: u64 = 1_000_000;
/// Runs of one experiment.
const MAX_RUNS: usize = 10_000;
/// Traffic of one scenario; each has its own range of ports.
const MAX_TRAFFIC: usize = 16;
/// No path on Earth is longer.
const MAX_RTT: Nanos = Nanos::from_secs(2);
const FRAME: Bytes = Bytes(1514);

/// Reads and checks the experiment file at `path`.
///
/// # Errors
/// If the file cannot be read, or describes what cannot be run; the error names the line.
pub fn load(path: &FilePath) -> Result<Experiment, ConfigError> {
    let (file, source) = forebay_config::load(path)?;
    Check(&source).experiment(&file)
}

/// Reads and checks an experiment; `name` is what errors call it, and files that it names are
/// looked for beside it.
///
/// # Errors
/// If it describes what cannot be run; the error names the line.
pub fn parse(name: &FilePath, text: &str) -> Result<Experiment, ConfigError> {
    let (file, source) = forebay_config::parse(name, text)?;
    Check(&source).experiment(&file)
}

/// Turns what was written into what can be run, or tells where it cannot.
pub(super) struct Check<'a>(pub(super) &'a Source);

impl Check<'_> {
    fn experiment(&self, file: &File) -> Result<Experiment, ConfigError> {
        self.name(&file.name, "name")?;
        let path = file.path.get_ref();
        let rates = self.axis("rate", file.path.span(), &path.rate, &file.grid.rate)?;
        let rtts = self.axis("rtt", file.path.span(), &path.rtt, &file.grid.rtt)?;
        let seeds = self.seeds(file)?;
        let mut cells = Vec::new();
        for rate in &rates {
            if rate.get_ref().0 == Rate::ZERO {
                return Err(self.0.error_at(rate.span(), "path.rate", "must be above zero"));
            }
            for rtt in &rtts {
                if rtt.get_ref().0 > MAX_RTT {
                    return Err(self.0.error_at(rtt.span(), "path.rtt", "must be at most 2 s"));
                }
                let path = Path { rate: rate.get_ref().0, rtt: rtt.get_ref().0 };
                cells.push(self.scenario(file, path, rate.span())?);
            }
        }
        let runs = cells.len() * file.arm.len() * seeds.len();
        if runs > MAX_RUNS {
            let what = format!("{runs} runs (cells x arms x seeds), {MAX_RUNS} are allowed");
            return Err(self.0.error_at(file.name.span(), "seeds", what));
        }
        Ok(Experiment {
            name: file.name.get_ref().clone(),
            title: file.title.clone(),
            seeds,
            cells,
        })
    }

    /// The values of a parameter, which stands either in `[path]` or in `[grid]`.
    fn axis<T: Clone>(
        &self,
        key: &str,
        path_span: Range<usize>,
        single: &Option<Spanned<T>>,
        grid: &Option<Spanned<Vec<Spanned<T>>>>,
    ) -> Result<Vec<Spanned<T>>, ConfigError> {
        match (single, grid) {
            (Some(value), None) => Ok(vec![value.clone()]),
            (None, Some(values)) if values.get_ref().is_empty() => {
                Err(self.0.error_at(values.span(), format!("grid.{key}"), "must not be empty"))
            }
            (None, Some(values)) => Ok(values.get_ref().clone()),
            (Some(value), Some(_)) => {
                let what = "stands here and in [grid]: remove one";
                Err(self.0.error_at(value.span(), format!("path.{key}"), what))
            }
            (None, None) => {
                let what = format!("missing: give {key} here or in [grid]");
                Err(self.0.error_at(path_span, format!("path.{key}"), what))
            }
        }
    }

    fn seeds(&self, file: &File) -> Result<Vec<u64>, ConfigError> {
        let Some(seeds) = &file.seeds else { return Ok(vec![1]) };
        let distinct: HashSet<_> = seeds.get_ref().iter().collect();
        if distinct.is_empty() || distinct.len() < seeds.get_ref().len() {
            let what = "must hold at least one seed, and none twice";
            return Err(self.0.error_at(seeds.span(), "seeds", what));
        }
        Ok(seeds.get_ref().clone())
    }

    fn scenario(
        &self,
        file: &File,
        path: Path,
        rate_span: Range<usize>,
    ) -> Result<Scenario, ConfigError> {
        let ip = match file.ip.as_ref().map(|ip| (*ip.get_ref(), ip.span())) {
            None | Some((4, _)) => IpVersion::V4,
            Some((6, _)) => IpVersion::V6,
            Some((_, span)) => return Err(self.0.error_at(span, "ip", "must be 4 or 6")),
        };
        let time = |value: &Option<Spanned<DurationValue>>| {
            value.as_ref().map_or(Nanos::ZERO, |v| v.get_ref().0)
        };
        let mut scenario = Scenario {
            name: file.name.get_ref().clone(),
            ip,
            path,
            traffic: Vec::new(),
            arms: Vec::new(),
            faults: Vec::new(),
            warmup: time(&file.warmup),
            duration: file.duration.get_ref().0,
            cooldown: time(&file.cooldown),
        };
        if scenario.duration == Nanos::ZERO {
            let what = "must be above zero";
            return Err(self.0.error_at(file.duration.span(), "duration", what));
        }
        let length = scenario.warmup.saturating_add(scenario.duration);
        let length = length.saturating_add(scenario.cooldown);
        let packets = path.rate.bytes_in(length).0 / FRAME.0;
        if packets > MAX_PACKETS {
            let what = format!(
                "{length} at {} are {packets} packets, {MAX_PACKETS} are allowed: \
                 lower the rate or the duration",
                path.rate
            );
            return Err(self.0.error_at(rate_span, "path.rate", what));
        }
        for arm in &file.arm {
            let arm = self.arm(arm, file.path.get_ref().queue.get_ref(), &path)?;
            scenario.arms.push(arm);
        }
        self.unique("arm", file.arm.iter().map(|arm| &arm.get_ref().name))?;
        if scenario.arms.is_empty() {
            let what = "missing: an experiment needs at least one [[arm]]";
            return Err(self.0.error_at(file.name.span(), "arm", what));
        }
        self.traffic(file, &mut scenario)?;
        scenario.faults = fault::faults(self, &file.fault, length)?;
        Ok(scenario)
    }

    fn traffic(&self, file: &File, scenario: &mut Scenario) -> Result<(), ConfigError> {
        self.unique("traffic", file.traffic.iter().map(|t| &t.get_ref().name))?;
        if file.traffic.is_empty() || file.traffic.len() > MAX_TRAFFIC {
            let what = format!("an experiment needs between 1 and {MAX_TRAFFIC} [[traffic]]");
            return Err(self.0.error_at(file.name.span(), "traffic", what));
        }
        let mut offered = 0;
        for table in &file.traffic {
            let traffic = traffic_check::traffic(self, table, scenario)?;
            if let TrafficKind::Requests { requests, .. } = &traffic.kind {
                offered += requests.load_bps;
            }
            // Open loop: above the path's rate the requests in progress only ever grow.
            if offered > scenario.path.rate.as_bps() {
                let what = format!(
                    "the requests offer {} to a path of {}: at most the path's rate is allowed",
                    Rate::from_bps(offered),
                    scenario.path.rate
                );
                return Err(self.0.error_at(table.span(), "traffic.load", what));
            }
            scenario.traffic.push(traffic);
        }
        Ok(())
    }

    fn arm(
        &self,
        arm: &Spanned<ArmTable>,
        path_queue: &QueueTable,
        path: &Path,
    ) -> Result<Arm, ConfigError> {
        let arm = arm.get_ref();
        self.name(&arm.name, "arm.name")?;
        let (table, key) = match &arm.queue {
            Some(own) => (own.get_ref(), "arm.queue.limit"),
            None => (path_queue, "path.queue.limit"),
        };
        let sendbox = match arm.sendbox.get_ref() {
            SendboxValue::Forward => Sendbox::Forward,
            SendboxValue::Bundle(own) => {
                let queue = Queue { kind: own.policy.into(), limit: *own.limit.get_ref() };
                Sendbox::Bundle(self.fits(queue, path, arm.sendbox.span(), "arm.sendbox.limit")?)
            }
        };
        let queue = Queue { kind: table.kind.into(), limit: *table.limit.get_ref() };
        let queue = self.fits(queue, path, table.limit.span(), key)?;
        Ok(Arm { name: arm.name.get_ref().clone(), sendbox, queue })
    }

    /// A queue must hold a packet, and not more than there is memory for.
    fn fits(
        &self,
        queue: Queue,
        path: &Path,
        span: Range<usize>,
        key: &str,
    ) -> Result<Queue, ConfigError> {
        let bytes = queue.limit_bytes(path);
        if (FRAME.0..=MAX_QUEUE * FRAME.0).contains(&bytes.0) {
            return Ok(queue);
        }
        let what = format!("is {bytes} here ({path}): it must hold 1 to {MAX_QUEUE} packets");
        Err(self.0.error_at(span, key, what))
    }

    /// Names go into file names and figures.
    pub(super) fn name(&self, name: &Spanned<String>, key: &str) -> Result<(), ConfigError> {
        let text = name.get_ref();
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=40).contains(&text.len()) && text.chars().all(good) {
            return Ok(());
        }
        let what = "must be 1 to 40 letters, digits, '-' or '_'";
        Err(self.0.error_at(name.span(), key, what))
    }

    fn unique<'n>(
        &self,
        table: &str,
        names: impl Iterator<Item = &'n Spanned<String>>,
    ) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name.get_ref()) {
                let what = format!("\"{}\" stands twice: names must differ", name.get_ref());
                return Err(self.0.error_at(name.span(), format!("{table}.name"), what));
            }
        }
        Ok(())
    }
}

impl From<QueueKindName> for QueueKind {
    fn from(name: QueueKindName) -> Self {
        match name {
            QueueKindName::Fifo => Self::Fifo,
            QueueKindName::Sfq => Self::Sfq,
            QueueKindName::FqCodel => Self::FqCodel,
        }
    }
}
