//! Checks an experiment file and builds what is run.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path as FilePath;

use forebay_config::{ConfigError, DurationValue, Spanned, rate_bounds};
use forebay_control::ControlConfig;
use forebay_discipline::{BaseAqm, Key};
use forebay_queue::{codel, pi2};
use forebay_sim::Capacity;
use forebay_units::{Bytes, Nanos, Rate};

use super::file::{ArmTable, File, FromName, SendboxValue, TrafficTable};
use super::grid::{Cell, cells};
use super::model::{Arm, Experiment, IpVersion, Path, Records, Scenario, Sendbox};
use super::queue::{BundleTable, QueueTable};
use super::rules::{Check, MAX_RUNS};
use super::{Conditions, FaultKind, Maker, Queue, QueueKind, Spread, TrafficKind};
use super::{classes, conditions, fault, phase, traffic_check};

/// The largest number of full packets in a run. Each takes 16 bytes in a packet log, 1.6 GB in all.
const MAX_PACKETS: u64 = 100_000_000;
/// The largest number of packets of a run that keeps only figures: days of computing.
const MAX_COUNTED: u64 = 100_000_000_000;
/// The largest number of full packets in a queue, which take 1.5 GB of buffers.
const MAX_QUEUE: u64 = 1_000_000;
/// The interval of the records of flows' states.
const STATE_EVERY: Nanos = Nanos::from_millis(100);
/// The largest number of such records, which have about a hundred bytes.
const MAX_STATES: u64 = 20_000_000;
/// The largest number of traffics in a scenario; each has its own range of ports.
const MAX_TRAFFIC: usize = 16;
/// The largest target and interval of an AQM.
const MAX_TIME: Nanos = codel::Params::MAX_INTERVAL;
/// The largest number of sites with a sendbox each; a site's number is a byte in records.
const MAX_SITES: u32 = 200;
/// The number of segments in the largest super-packet.
const MAX_BURST: u32 = 45;
const FRAME: Bytes = Bytes(1514);
/// Why an arm with a `program` may have neither `sendbox` nor `link`.
const BESIDE_PROGRAM: &str = "`program` stands in the sendbox's place: remove one";

/// Reads and checks the experiment file at `path`.
///
/// # Errors
/// If the file cannot be read, or describes what cannot be run; the error names the line.
pub fn load(path: &FilePath) -> Result<Experiment, ConfigError> {
    let (file, source) = forebay_config::load(path)?;
    Check(&source).experiment(&file)
}

/// Reads and checks an experiment from `text`. Errors refer to it as `name`, and files that it
/// names are looked for beside `name`.
///
/// # Errors
///
/// If it describes what cannot be run; the error names the line.
pub fn parse(name: &FilePath, text: &str) -> Result<Experiment, ConfigError> {
    let (file, source) = forebay_config::parse(name, text)?;
    Check(&source).experiment(&file)
}

impl Check<'_> {
    fn experiment(&self, file: &File) -> Result<Experiment, ConfigError> {
        self.name(&file.name, "name")?;
        let seeds = self.seeds(file)?;
        let cells = cells(self, file)?;
        let cells = cells.iter().map(|cell| self.scenario(file, cell));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
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

    fn seeds(&self, file: &File) -> Result<Vec<u64>, ConfigError> {
        let Some(seeds) = &file.seeds else { return Ok(vec![1]) };
        let distinct: HashSet<_> = seeds.get_ref().iter().collect();
        if distinct.is_empty() || distinct.len() < seeds.get_ref().len() {
            let what = "must hold at least one seed, and none twice";
            return Err(self.0.error_at(seeds.span(), "seeds", what));
        }
        Ok(seeds.get_ref().clone())
    }

    fn scenario(&self, file: &File, cell: &Cell<'_>) -> Result<Scenario, ConfigError> {
        let conditions = self.conditions(file, cell)?;
        // A policer below the line's rate is the bottleneck.
        let policed = conditions.policer.map_or(cell.path.rate, |p| p.rate.min(cell.path.rate));
        let path = Path { rate: policed, ..cell.path };
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
            ecn: file.ecn,
            paced: file.paced,
            largest_burst: self.largest_burst(file)?,
            records: file.records,
            path,
            conditions,
            sites: self.sites(file)?,
            labels: cell.labels.clone(),
            traffic: Vec::new(),
            arms: Vec::new(),
            phases: Vec::new(),
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
        let rate = scenario.highest_rate();
        let packets = rate.bytes_in(length).0 / FRAME.0;
        let (most, advice) = match scenario.records {
            Records::All => (MAX_PACKETS, ", or in the simulator say records = \"figures\""),
            Records::Figures => (MAX_COUNTED, ""),
        };
        if packets > most {
            let what = format!(
                "{length} at {rate} are {packets} packets, {most} are allowed: \
                 lower the rate or the duration{advice}",
            );
            return Err(self.0.error_at(cell.rate_span.clone(), "path.rate", what));
        }
        for table in &file.arm {
            let mut arm = self.arm(table, cell.queue.get_ref(), &path)?;
            arm.start = self.arm_start(table.get_ref(), &arm, length)?;
            scenario.arms.push(arm);
        }
        self.unique("arm", file.arm.iter().map(|arm| &arm.get_ref().name))?;
        if scenario.arms.is_empty() {
            let what = "missing: an experiment needs at least one [[arm]]";
            return Err(self.0.error_at(file.name.span(), "arm", what));
        }
        scenario.phases = phase::phases(self, &file.phase, length)?;
        self.traffic(file, cell, &mut scenario)?;
        for (table, arm) in file.arm.iter().zip(&scenario.arms) {
            self.classes(table.get_ref(), arm, &scenario)?;
        }
        scenario.faults = fault::faults(self, &file.fault, length)?;
        let changes = scenario.faults.iter().any(|f| matches!(f.kind, FaultKind::Route { .. }));
        if let (Some(name), true) = (&file.path.get_ref().delay_trace, changes) {
            let what = "says how long the path is: remove it, or the `rtt` of [[fault]]";
            return Err(self.0.error_at(name.span(), "path.delay_trace", what));
        }
        if let (Some(site), true) = (file.site.first(), changes) {
            let what = "says how long its path is: remove it, or the `rtt` of [[fault]]";
            return Err(self.0.error_at(site.span(), "site", what));
        }
        Ok(scenario)
    }

    /// Checks that weighted classes of an arm are those of the traffic.
    fn classes(&self, table: &ArmTable, arm: &Arm, scenario: &Scenario) -> Result<(), ConfigError> {
        if let (Sendbox::Bundle(bundle), Some(own)) = (&arm.sendbox, &table.sendbox) {
            classes::fits(self, bundle, own.span(), scenario, "arm.sendbox")?;
        }
        if let (Some(bundle), Some(own)) = (&arm.outer, &table.outer) {
            classes::fits(self, bundle, own.span(), scenario, "arm.outer")?;
        }
        Ok(())
    }

    /// Checks when the sendbox of an arm begins to control, in a run of `length`.
    fn arm_start(&self, table: &ArmTable, arm: &Arm, length: Nanos) -> Result<Nanos, ConfigError> {
        let Some(start) = &table.start else { return Ok(Nanos::ZERO) };
        let what = match (arm.sendbox, start.get_ref().0) {
            (Sendbox::Forward | Sendbox::Link(_), _) => {
                "is of a sendbox with a bundle: remove it".to_owned()
            }
            (Sendbox::Bundle(_), at) if at >= length => {
                format!("must be within the run of {length}")
            }
            (Sendbox::Bundle(_), at) => return Ok(at),
        };
        Err(self.0.error_at(start.span(), "arm.start", what))
    }

    fn sites(&self, file: &File) -> Result<u32, ConfigError> {
        match &file.sites {
            None => Ok(1),
            Some(sites) if (1..=MAX_SITES).contains(sites.get_ref()) => Ok(*sites.get_ref()),
            Some(sites) => {
                Err(self.0.error_at(sites.span(), "sites", format!("must be 1 to {MAX_SITES}")))
            }
        }
    }

    fn largest_burst(&self, file: &File) -> Result<Option<u32>, ConfigError> {
        match &file.largest_burst {
            Some(given) if !(1..=MAX_BURST).contains(given.get_ref()) => {
                let what = format!("must be 1 to {MAX_BURST} segments");
                Err(self.0.error_at(given.span(), "largest_burst", what))
            }
            given => Ok(given.as_ref().map(|g| *g.get_ref())),
        }
    }

    fn conditions(&self, file: &File, cell: &Cell<'_>) -> Result<Conditions, ConfigError> {
        let (table, path) = (file.path.get_ref(), cell.path);
        let mut made = Conditions::plain(path);
        if let Some(trace) = &cell.trace {
            made.capacity = Capacity::Trace(trace.clone());
        } else if let Some(steps) = &table.steps {
            made.capacity = conditions::steps(self, steps, path)?;
        }
        made.delay_trace.clone_from(&cell.delay_trace);
        if let Some(loss) = &table.loss {
            made.loss = conditions::loss(self, loss, "path.loss")?;
        }
        made.feedback_loss = table.feedback_loss.as_ref().map_or(0.0, |share| share.0);
        if let Some(jitter) = &table.jitter {
            made.jitter = conditions::jitter(self, jitter)?;
        }
        made.ways = match cell.ways {
            None => conditions::ways(self, &table.way, path)?,
            Some(count) => conditions::equal_ways(self, count, &table.way, path)?,
        };
        if let (Some(name), false) = (&table.delay_trace, made.ways.is_empty()) {
            let what = "is of a path of one way: remove it or the ways";
            return Err(self.0.error_at(name.span(), "path.delay_trace", what));
        }
        if let Some(policer) = &table.policer {
            made.policer = Some(conditions::policer(self, policer)?);
            let rates = file.grid.rate.is_some();
            let what = match (made.ways.is_empty(), rates) {
                (false, _) => "is of a path of one way: remove it or the ways",
                (_, true) => "sets the path's rate: remove it, or `rate` in [grid]",
                _ => "",
            };
            if !what.is_empty() {
                return Err(self.0.error_at(policer.span(), "path.policer", what));
            }
        }
        if let Some(back) = &table.back {
            made.back = Some(conditions::back(self, back, path)?);
        }
        made.site_rtts = conditions::site_rtts(self, &file.site, self.sites(file)?, path)?;
        if let Some(spread) = &table.spread {
            made.spread = *spread.get_ref();
            self.spread(spread.span(), file, &made)?;
        }
        Ok(made)
    }

    /// Checks that sites with a way of their own have one, and share nothing behind the sendbox.
    fn spread(
        &self,
        span: Range<usize>,
        file: &File,
        made: &Conditions,
    ) -> Result<(), ConfigError> {
        if made.spread != Spread::Site {
            return Ok(());
        }
        let fail = |what: String| Err(self.0.error_at(span.clone(), "path.spread", what));
        let sites = self.sites(file)?;
        if made.ways.len() != sites as usize {
            return fail(format!(
                "\"site\" needs a [[path.way]] for each site: there are {} for {sites}",
                made.ways.len()
            ));
        }
        let is_cross = |t: &Spanned<TrafficTable>| t.get_ref().from == Some(FromName::Cross);
        let mut arms = file.arm.iter().map(Spanned::get_ref);
        let beside = if !file.site.is_empty() {
            "[[site]]: each way has its `rtt`"
        } else if file.traffic.iter().any(is_cross) {
            "cross traffic: no bottleneck is shared"
        } else if arms.any(|arm| arm.outer.is_some() || arm.link.is_some()) {
            "`outer` or `link` of [[arm]]: the sites share one sendbox, and no bottleneck"
        } else {
            return Ok(());
        };
        fail(format!("\"site\" does not go with {beside}"))
    }

    fn traffic(
        &self,
        file: &File,
        cell: &Cell<'_>,
        scenario: &mut Scenario,
    ) -> Result<(), ConfigError> {
        self.unique("traffic", file.traffic.iter().map(|t| &t.get_ref().name))?;
        if file.traffic.is_empty() || file.traffic.len() > MAX_TRAFFIC {
            let what = format!("an experiment needs between 1 and {MAX_TRAFFIC} [[traffic]]");
            return Err(self.0.error_at(file.name.span(), "traffic", what));
        }
        let mut offered = 0;
        let mut bulks = 0;
        for table in &file.traffic {
            let traffic = traffic_check::traffic(self, table, scenario, (cell, bulks))?;
            bulks += usize::from(matches!(traffic.kind, TrafficKind::Bulk { .. }));
            if let TrafficKind::Requests { requests, .. } = &traffic.kind {
                offered += requests.load_bps;
            }
            // Requests are an open loop: above the path's rate, the number in progress grows
            // without end.
            if offered > scenario.path.rate.as_bps() {
                let what = format!(
                    "the requests offer {} to a path of {}: at most the path's rate is allowed",
                    Rate::from_bps(offered),
                    scenario.path.rate
                );
                return Err(self.0.error_at(table.span(), "traffic.load", what));
            }
            scenario.traffic.push(traffic);
            self.flows(table, scenario)?;
        }
        Ok(())
    }

    /// Checks the number of flows of all traffic up to `table`, and that of their states.
    fn flows(&self, table: &Spanned<TrafficTable>, scenario: &Scenario) -> Result<(), ConfigError> {
        let flows = scenario.flows();
        let intervals = scenario.length().0.div_ceil(STATE_EVERY.0);
        let what = if flows > u64::from(traffic_check::MAX_FLOWS) {
            format!("{flows} flows of all traffic, {} are allowed", traffic_check::MAX_FLOWS)
        } else if scenario.records == Records::All && flows.saturating_mul(intervals) > MAX_STATES {
            format!(
                "{flows} flows for {} have {} states, one every {STATE_EVERY}, {MAX_STATES} are \
                 allowed: say records = \"figures\", which keeps none",
                scenario.length(),
                flows.saturating_mul(intervals)
            )
        } else {
            return Ok(());
        };
        Err(self.0.error_at(table.span(), "traffic.flows", what))
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
            Some(own) => (own.get_ref(), "arm.queue"),
            None => (path_queue, "path.queue"),
        };
        let policy = |queue: Queue, policy: Range<usize>, limit: Range<usize>, key: &str| {
            if !queue.kind.is_policy() {
                let what = "no policy of the boxes: they have fifo, sfq, fq_codel, pie, \
                            dualpi2, strict and weighted, and over the kernel's queues cake";
                return Err(self.0.error_at(policy, format!("{key}.policy"), what));
            }
            self.fits(queue, path, limit, &format!("{key}.limit"))
        };
        let bundle = |table: &BundleTable, key: &str| {
            let mut bundle = table.bundle();
            if let Some(guard) = table.guard.as_ref().filter(|_| bundle.guard)
                && !bundle.controller.takes_guard(bundle.cross_traffic)
            {
                let what = "needs controller = \"forebay\" and cross_traffic = \"ignore\"";
                return Err(self.0.error_at(guard.span(), format!("{key}.guard"), what));
            }
            policy(bundle.queue, table.policy.span(), table.limit.span(), key)?;
            let has_target = bundle.queue.kind.policy_has(Key::Target);
            self.time(table.target.as_ref(), has_target, &format!("{key}.target"))?;
            self.coupling(table.coupling.as_ref(), bundle.queue, key)?;
            let (kind, tables) = (bundle.queue.kind, table.classes.as_ref());
            let defaults = ControlConfig::default();
            [bundle.min_rate, bundle.max_rate] = rate_bounds(
                self.0,
                key,
                [table.min_rate.as_ref(), table.max_rate.as_ref()],
                [defaults.min_rate, defaults.max_rate],
            )?;
            bundle.classes = classes::shares(self, kind, table.policy.span(), tables, key)?;
            Ok(bundle)
        };
        let program = match &arm.program {
            Some(program) => self.program(program)?,
            None => Vec::new(),
        };
        let sendbox = match (&arm.sendbox, &arm.link) {
            (None, None) if !program.is_empty() => Sendbox::Forward,
            (Some(sendbox), _) if !program.is_empty() => {
                return Err(self.0.error_at(sendbox.span(), "arm.sendbox", BESIDE_PROGRAM));
            }
            (None, Some(link)) if !program.is_empty() => {
                return Err(self.0.error_at(link.span(), "arm.link", BESIDE_PROGRAM));
            }
            (Some(sendbox), None) => match sendbox.get_ref() {
                SendboxValue::Forward => Sendbox::Forward,
                SendboxValue::Bundle(own) => Sendbox::Bundle(bundle(own, "arm.sendbox")?),
            },
            (None, Some(link)) => {
                let (table, link) = (link.get_ref(), link.get_ref().link());
                policy(link.queue, table.policy.span(), table.limit.span(), "arm.link")?;
                if link.queue.kind == QueueKind::Weighted {
                    let what = "goes with `sendbox` only: the laboratory's link has no shares";
                    return Err(self.0.error_at(table.policy.span(), "arm.link.policy", what));
                }
                if link.rate == Rate::ZERO {
                    let what = "a rate of zero stops the link";
                    return Err(self.0.error_at(table.rate.span(), "arm.link.rate", what));
                }
                Sendbox::Link(link)
            }
            (Some(_), Some(link)) => {
                let what = "stands in the sendbox's place: remove one";
                return Err(self.0.error_at(link.span(), "arm.link", what));
            }
            (None, None) => {
                let what = "missing: what the sendbox does, or `link` or `program`";
                return Err(self.0.error_at(arm.name.span(), "arm.sendbox", what));
            }
        };
        let outer = arm.outer.as_ref().map(|own| bundle(own.get_ref(), "arm.outer")).transpose()?;
        let queue = self.queue(table, path, key)?;
        let (name, start) = (arm.name.get_ref().clone(), Nanos::ZERO);
        Ok(Arm { name, sendbox, program, queue, start, outer })
    }

    /// Checks a program that stands in the sendbox's place. A path is relative to the file.
    fn program(&self, program: &Spanned<Vec<String>>) -> Result<Vec<String>, ConfigError> {
        let fail = |what: String| self.0.error_at(program.span(), "arm.program", what);
        let Some((path, arguments)) = program.get_ref().split_first() else {
            return Err(fail("needs the path of a program".to_owned()));
        };
        let beside = self.0.file().parent().unwrap_or("".as_ref()).join(path);
        let found =
            beside.canonicalize().map_err(|e| fail(format!("{}: {e}", beside.display())))?;
        let found = found.to_str().ok_or_else(|| fail("the path must be UTF-8".to_owned()))?;
        Ok(std::iter::once(found.to_owned()).chain(arguments.iter().cloned()).collect())
    }

    /// Checks the bottleneck queue in the table `key`.
    fn queue(&self, table: &QueueTable, path: &Path, key: &str) -> Result<Queue, ConfigError> {
        let queue = table.queue();
        if queue.kind.is_classful() {
            let what = "is a policy of sendboxes: a bottleneck knows no classes";
            return Err(self.0.error_at(table.kind.span(), format!("{key}.kind"), what));
        }
        if queue.kind.bottleneck_keys().is_none() {
            let what = "is a policy of sendboxes: the laboratory has none at a bottleneck";
            return Err(self.0.error_at(table.kind.span(), format!("{key}.kind"), what));
        }
        if queue.kind.is_kernel_only() && queue.by == Maker::Forebay {
            let what = "only Linux has it: say by = \"kernel\"";
            return Err(self.0.error_at(table.kind.span(), format!("{key}.kind"), what));
        }
        if let (Some(ecn), true, false) = (&table.ecn, queue.ecn, queue.kind.can_mark()) {
            let what = format!("{} never marks: remove it", queue.kind.name());
            return Err(self.0.error_at(ecn.span(), format!("{key}.ecn"), what));
        }
        if queue.by == Maker::Kernel && !queue.kind.is_in_tc() {
            let what = "only this project's can be had: remove by = \"kernel\"";
            return Err(self.0.error_at(table.kind.span(), format!("{key}.kind"), what));
        }
        if let (Some(ecn), true, false) = (&table.ecn, queue.kind.always_marks(), queue.ecn) {
            let what = format!("{} always marks: remove it", queue.kind.name());
            return Err(self.0.error_at(ecn.span(), format!("{key}.ecn"), what));
        }
        self.times(table, queue, key)?;
        self.fits(queue, path, table.limit.span(), &format!("{key}.limit"))
    }

    /// Checks DualPI2's coupling factor.
    fn coupling(
        &self,
        k: Option<&Spanned<f64>>,
        queue: Queue,
        key: &str,
    ) -> Result<(), ConfigError> {
        let (least, most) = pi2::COUPLINGS;
        // Boxes and bottlenecks have it for the same discipline.
        let is_ours = queue.by == Maker::Forebay && queue.kind.bottleneck_has(Key::Coupling);
        let Some(k) = k.filter(|k| !is_ours || !(least..=most).contains(k.get_ref())) else {
            return Ok(());
        };
        let what = format!("is of this project's dualpi2, from {least} to {most}");
        Err(self.0.error_at(k.span(), format!("{key}.coupling"), what))
    }

    /// Checks the target, CoDel's interval and threshold for L4S, the set of parameters, and
    /// DualPI2's base AQM.
    fn times(&self, table: &QueueTable, queue: Queue, key: &str) -> Result<(), ConfigError> {
        let (ours, has) = (queue.by == Maker::Forebay, |key| queue.kind.bottleneck_has(key));
        let profiles = ours && has(Key::Profile);
        self.coupling(table.coupling.as_ref(), queue, key)?;
        if let (Some(profile), false) = (&table.profile, profiles) {
            let what = "is of this project's pie and dualpi2: remove it";
            return Err(self.0.error_at(profile.span(), format!("{key}.profile"), what));
        }
        if let (Some(base), false) = (&table.base, ours && has(Key::Base)) {
            let what = "is of this project's dualpi2: remove it";
            return Err(self.0.error_at(base.span(), format!("{key}.base"), what));
        }
        let red = queue.base == Some(BaseAqm::CurvyRed);
        for (name, given, fits) in [
            ("target", &table.target, has(Key::Target) && !red),
            ("range", &table.range, red),
            ("min_threshold", &table.min_threshold, red),
            ("interval", &table.interval, has(Key::Interval)),
            ("l4s_threshold", &table.l4s_threshold, has(Key::L4sThreshold) && ours),
            ("l4s_burst", &table.l4s_burst, has(Key::L4sBurst) && ours),
        ] {
            self.time(given.as_ref(), fits, &format!("{key}.{name}"))?;
        }
        Ok(())
    }

    /// Checks a time of a queue, and that its kind has this time.
    fn time(
        &self,
        given: Option<&Spanned<DurationValue>>,
        fits: bool,
        key: &str,
    ) -> Result<(), ConfigError> {
        let Some(given) = given else { return Ok(()) };
        let what = match given.get_ref().0 {
            _ if !fits => "is not of this kind of queue: remove it",
            time if time == Nanos::ZERO || time > MAX_TIME => "must be above zero, at most 4 s",
            _ => return Ok(()),
        };
        Err(self.0.error_at(given.span(), key, what))
    }

    /// Checks that a queue can hold a packet and fits into memory.
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
}
