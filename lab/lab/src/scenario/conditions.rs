use std::ops::Range;

use forebay_config::{
    ConfigError, DurationValue, Limit, RateValue, ShareValue, SizeValue, Spanned,
};
use forebay_sim::{Capacity, DelayTrace, Jitter, Loss, PolicerConfig, Trace, TraceError};
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::Path;
use super::rules::{Check, MAX_RTT};

/// The largest number of steps of a path's rate.
const MAX_STEPS: usize = 10_000;
/// The size of the largest trace: 15 minutes at 100 Mbit/s with eight bytes per line.
const MAX_TRACE: Bytes = Bytes(64_000_000);
/// The largest number of parallel ways of a path.
const MAX_WAYS: usize = 64;

/// The size of a full frame.
const FRAME: Bytes = Bytes(1_514);
/// The largest burst of a policer.
const MAX_BURST: Bytes = Bytes(1_000_000_000);
/// The largest number of full packets in the queue of the way back.
const MAX_BACK_QUEUE: u64 = 100_000;

/// Conditions of a path beyond its rate and delay: variation of the rate, loss, jitter and parallel
/// ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The bottleneck's rate over time, from the start of the run; [`Path::rate`] is the first.
    pub capacity: Capacity,
    /// The one-way delay of both directions over time, from the start of the run; [`Path::rtt`] is
    /// then twice the shortest.
    #[serde(default)]
    pub delay_trace: Option<DelayTrace>,
    /// Loss behind the bottleneck.
    pub loss: Loss,
    /// The share of the receiveboxes' messages that is lost on the return path, 0 to 1.
    pub feedback_loss: f64,
    /// The variation of the propagation delay behind the bottleneck.
    pub jitter: Jitter,
    /// Parallel ways between the boxes, each with its own bottleneck; empty if the path itself is
    /// the only way.
    pub ways: Vec<Path>,
    /// The distribution of packets over parallel ways.
    pub spread: Spread,
    /// A policer in front of the bottleneck's queue.
    #[serde(default)]
    pub policer: Option<PolicerConfig>,
    /// The bottleneck of the way back, if there is one.
    #[serde(default)]
    pub back: Option<Back>,
    /// The round-trip times of the sites' empty paths; those of further sites are the path's.
    #[serde(default)]
    pub site_rtts: Vec<Nanos>,
}

/// The bottleneck of the way back, which all sites share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Back {
    /// The rate; unlimited if there is none.
    pub rate: Option<Rate>,
    /// The limit of its queue, a FIFO, in bytes.
    pub limit: Bytes,
    /// The loss behind it.
    pub loss: Loss,
}

impl Conditions {
    /// The conditions of a path with a constant rate, without loss, jitter and parallel ways.
    pub fn plain(path: Path) -> Self {
        Self {
            capacity: Capacity::Constant(path.rate),
            delay_trace: None,
            loss: Loss::None,
            feedback_loss: 0.0,
            jitter: Jitter::default(),
            ways: Vec::new(),
            spread: Spread::default(),
            policer: None,
            back: None,
            site_rtts: Vec::new(),
        }
    }

    /// What the empty path of `site` takes beyond its way, there and back.
    pub fn site_longer(&self, site: u32, path: &Path) -> Nanos {
        match self.spread {
            Spread::Site => Nanos::ZERO,
            _ => self.site_rtt(site, path).saturating_sub(path.rtt),
        }
    }

    /// The round-trip time of the empty path of `site`, counted from zero, on `path`.
    pub fn site_rtt(&self, site: u32, path: &Path) -> Nanos {
        if self.spread == Spread::Site
            && let Some(way) = self.ways.get(site as usize)
        {
            return way.rtt;
        }
        self.site_rtts.get(site as usize).copied().unwrap_or(path.rtt)
    }
}

/// The distribution of packets over parallel ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// By the flow's hash, as routers do it.
    #[default]
    Flow,
    /// Each packet independently.
    Packet,
    /// The traffic of each site takes the way of its number. All of it comes from site A through
    /// one sendbox, which has a bundle for each site.
    Site,
}

/// A step of `[path] steps`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepTable {
    at: Spanned<DurationValue>,
    rate: Spanned<RateValue>,
}

/// `[path] loss`: a share such as `"0.1 %"`, or a table of Gilbert's model.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected a share such as \"0.1 %\" or { begin, end } of bursts")]
pub(super) enum LossValue {
    Random(ShareValue),
    Burst(BurstTable),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BurstTable {
    begin: ShareValue,
    end: ShareValue,
}

/// `[path] jitter`: a time such as `"2 ms"`, or a table that says whether it reorders.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected a time such as \"2 ms\" or { up_to = \"2 ms\", reorders }")]
pub(super) enum JitterValue {
    UpTo(DurationValue),
    Table(JitterTable),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JitterTable {
    up_to: DurationValue,
    #[serde(default)]
    reorders: bool,
}

/// The policer in the key `policer` of `[path]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicerTable {
    rate: Spanned<RateValue>,
    burst: Spanned<SizeValue>,
}

/// The bottleneck of the way back, in `[path.back]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackTable {
    rate: Option<Spanned<RateValue>>,
    /// The limit of the queue; 1000 packets by default.
    limit: Option<Spanned<Limit>>,
    loss: Option<Spanned<LossValue>>,
}

/// A site in `[[site]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SiteTable {
    /// The round-trip time of its empty path; the path's by default.
    rtt: Option<Spanned<DurationValue>>,
}

/// Checks the policer in `table`.
pub(super) fn policer(
    check: &Check<'_>,
    table: &Spanned<PolicerTable>,
) -> Result<PolicerConfig, ConfigError> {
    let PolicerTable { rate, burst } = table.get_ref();
    above_zero(check, rate.get_ref().0, rate.span(), "path.policer.rate")?;
    let config = PolicerConfig { rate: rate.get_ref().0, burst: burst.get_ref().0 };
    if !(FRAME..=MAX_BURST).contains(&config.burst) {
        let what = "must be 1514 B, a full packet, to 1 GB";
        return Err(check.0.error_at(burst.span(), "path.policer.burst", what));
    }
    Ok(config)
}

/// Checks the way back in `table`, of a path with this round-trip time.
pub(super) fn back(
    check: &Check<'_>,
    table: &Spanned<BackTable>,
    path: Path,
) -> Result<Back, ConfigError> {
    let BackTable { rate, limit, loss: lossy } = table.get_ref();
    if let Some(rate) = rate {
        above_zero(check, rate.get_ref().0, rate.span(), "path.back.rate")?;
    }
    let loss = lossy.as_ref().map(|loss| self::loss(check, loss, "path.back.loss"));
    let loss = loss.transpose()?.unwrap_or_default();
    let own = match (rate, limit) {
        (None, Some(limit)) => {
            let what = "is of the queue at `rate`: give the rate too";
            return Err(check.0.error_at(limit.span(), "path.back.limit", what));
        }
        (None, None) if loss == Loss::None => {
            let what = "has neither `rate` nor `loss`: give one of them, or remove it";
            return Err(check.0.error_at(table.span(), "path.back", what));
        }
        (rate, _) => rate.as_ref().map(|rate| rate.get_ref().0),
    };
    let bytes = match (limit, own) {
        (Some(limit), Some(rate)) => limit.get_ref().bytes(rate, path.rtt),
        _ => Bytes(1_000 * FRAME.0),
    };
    if let Some(limit) = limit
        && !(FRAME.0..=MAX_BACK_QUEUE * FRAME.0).contains(&bytes.0)
    {
        let what = format!("is {bytes} here: it must hold 1 to {MAX_BACK_QUEUE} packets");
        return Err(check.0.error_at(limit.span(), "path.back.limit", what));
    }
    Ok(Back { rate: own, limit: bytes, loss })
}

/// Checks the round-trip times of the sites in `tables`, of which there are `sites`.
pub(super) fn site_rtts(
    check: &Check<'_>,
    tables: &[Spanned<SiteTable>],
    sites: u32,
    path: Path,
) -> Result<Vec<Nanos>, ConfigError> {
    if let Some(table) = tables.get(sites as usize) {
        let what = format!("there are only {sites} `sites`: raise it, or remove this one");
        return Err(check.0.error_at(table.span(), "site", what));
    }
    let rtt = |table: &Spanned<SiteTable>| match &table.get_ref().rtt {
        None => Ok(path.rtt),
        Some(rtt) if (path.rtt..=MAX_RTT).contains(&rtt.get_ref().0) => Ok(rtt.get_ref().0),
        Some(rtt) => {
            let what = format!("must be {}, the path's, to 2 s", path.rtt);
            Err(check.0.error_at(rtt.span(), "site.rtt", what))
        }
    };
    tables.iter().map(rtt).collect()
}

/// A way in `[[path.way]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WayTable {
    rate: Option<Spanned<RateValue>>,
    rtt: Option<Spanned<DurationValue>>,
}

/// Reads the trace of the path's rate in the file `name`, beside the experiment's file.
pub(super) fn trace(check: &Check<'_>, name: &Spanned<String>) -> Result<Trace, ConfigError> {
    read_trace(check, name, "path.trace", Trace::parse)
}

/// Reads the trace of the path's delay in the file `name`, beside the experiment's file.
pub(super) fn delay_trace(
    check: &Check<'_>,
    name: &Spanned<String>,
) -> Result<DelayTrace, ConfigError> {
    read_trace(check, name, "path.delay_trace", DelayTrace::parse)
}

fn read_trace<T>(
    check: &Check<'_>,
    name: &Spanned<String>,
    key: &str,
    parse: impl Fn(&str, &str) -> Result<T, TraceError>,
) -> Result<T, ConfigError> {
    let fail = |what: String| check.0.error_at(name.span(), key, what);
    let beside = check.0.file().parent().unwrap_or("".as_ref()).join(name.get_ref());
    let text = forebay_input::text(&beside, MAX_TRACE).map_err(|e| fail(e.to_string()))?;
    parse(&beside.display().to_string(), &text).map_err(|e| fail(e.to_string()))
}

/// Checks the steps of a rate that begins with `path`'s.
pub(super) fn steps(
    check: &Check<'_>,
    steps: &Spanned<Vec<StepTable>>,
    path: Path,
) -> Result<Capacity, ConfigError> {
    if !(1..=MAX_STEPS).contains(&steps.get_ref().len()) {
        let what = format!("must hold 1 to {MAX_STEPS} steps");
        return Err(check.0.error_at(steps.span(), "path.steps", what));
    }
    let mut rates = vec![(Nanos::ZERO, path.rate)];
    for step in steps.get_ref() {
        let (at, rate) = (step.at.get_ref().0, step.rate.get_ref().0);
        if rates.last().is_some_and(|(before, _)| *before >= at) {
            let what = "must come after the step before, and after the start of the run";
            return Err(check.0.error_at(step.at.span(), "path.steps.at", what));
        }
        rates.push((at, rate));
    }
    // A rate of zero is an outage, which must end.
    if let (Some(step), Some((_, rate))) = (steps.get_ref().last(), rates.last()) {
        above_zero(check, *rate, step.rate.span(), "path.steps.rate")?;
    }
    Ok(Capacity::Steps(rates))
}

/// Checks that a rate is above zero.
pub(super) fn above_zero(
    check: &Check<'_>,
    rate: Rate,
    span: Range<usize>,
    key: &str,
) -> Result<(), ConfigError> {
    if rate == Rate::ZERO {
        return Err(check.0.error_at(span, key, "must be above zero"));
    }
    Ok(())
}

/// Checks the loss in `value`, which stands at `key`.
pub(super) fn loss(
    check: &Check<'_>,
    value: &Spanned<LossValue>,
    key: &str,
) -> Result<Loss, ConfigError> {
    let fail = |what: &str| check.0.error_at(value.span(), key, what);
    match *value.get_ref() {
        LossValue::Random(ShareValue(p)) if p < 1.0 => Ok(Loss::Random(p)),
        LossValue::Random(_) => Err(fail("must be below 100 %: nothing would arrive")),
        LossValue::Burst(BurstTable { end: ShareValue(end), .. }) if end <= 0.0 => {
            Err(fail("`end` must be above 0 %: a burst would never end"))
        }
        LossValue::Burst(b) => Ok(Loss::Burst { begin: b.begin.0, end: b.end.0 }),
    }
}

/// Checks the jitter in `value`.
pub(super) fn jitter(
    check: &Check<'_>,
    value: &Spanned<JitterValue>,
) -> Result<Jitter, ConfigError> {
    let jitter = match *value.get_ref() {
        JitterValue::UpTo(DurationValue(up_to)) => Jitter { up_to, reorders: false },
        JitterValue::Table(t) => Jitter { up_to: t.up_to.0, reorders: t.reorders },
    };
    if jitter.up_to > MAX_RTT {
        return Err(check.0.error_at(value.span(), "path.jitter", "must be at most 2 s"));
    }
    Ok(jitter)
}

/// Returns `count` equal ways that share `path`'s rate, like a link aggregation group; none if
/// `count` is one.
pub(super) fn equal_ways(
    check: &Check<'_>,
    count: &Spanned<u32>,
    tables: &[Spanned<WayTable>],
    path: Path,
) -> Result<Vec<Path>, ConfigError> {
    let fail = |what: String| Err(check.0.error_at(count.span(), "path.ways", what));
    let n = *count.get_ref();
    if !tables.is_empty() {
        return fail("there are [[path.way]] too: remove one of them".to_owned());
    }
    match usize::try_from(n) {
        Ok(1) => Ok(Vec::new()),
        Ok(n @ 2..=MAX_WAYS) => {
            let rate = Rate::from_bps(path.rate.as_bps() / n as u64);
            Ok(vec![Path { rate, ..path }; n])
        }
        _ => fail(format!("must be 1 to {MAX_WAYS}")),
    }
}

/// Checks the ways in `tables`. The path's rate and round-trip time are the defaults.
pub(super) fn ways(
    check: &Check<'_>,
    tables: &[Spanned<WayTable>],
    path: Path,
) -> Result<Vec<Path>, ConfigError> {
    if let Some(table) = tables.get(MAX_WAYS) {
        let what = format!("at most {MAX_WAYS} ways are allowed");
        return Err(check.0.error_at(table.span(), "path.way", what));
    }
    let way = |table: &Spanned<WayTable>| {
        let own = table.get_ref();
        if let Some(rate) = &own.rate {
            above_zero(check, rate.get_ref().0, rate.span(), "path.way.rate")?;
        }
        if let Some(rtt) = own.rtt.as_ref().filter(|rtt| rtt.get_ref().0 > MAX_RTT) {
            return Err(check.0.error_at(rtt.span(), "path.way.rtt", "must be at most 2 s"));
        }
        let rate = own.rate.as_ref().map_or(path.rate, |r| r.get_ref().0);
        let rtt = own.rtt.as_ref().map_or(path.rtt, |r| r.get_ref().0);
        Ok(Path { rate, rtt })
    };
    tables.iter().map(way).collect()
}
