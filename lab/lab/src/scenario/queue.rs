use std::fmt;

use forebay_config::{DurationValue, Limit, RateValue, Spanned};
use forebay_control::{ControllerKind, Detection};
use forebay_discipline::{
    BaseAqm, Burst, Discipline, EcnUse, Key, LimitOnPath, Profile, QueueSpec, Settings,
};
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::classes::ClassTable;
use super::{Bundle, ClassShares, LinkBox, Path, QueueKind};

/// A queue: its discipline and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// The queueing discipline.
    pub kind: QueueKind,
    /// How much may wait.
    pub limit: Limit,
    /// Whose code it is.
    pub by: Maker,
    /// Whether packets of senders that allow it are marked where others are dropped (RFC 3168).
    pub ecn: bool,
    /// CoDel's or PIE's target; the discipline's own if there is none.
    #[serde(default)]
    pub target: Option<Nanos>,
    /// CoDel's interval; likewise.
    #[serde(default)]
    pub interval: Option<Nanos>,
    /// Which of PIE's or DualPI2's sets of parameters.
    #[serde(default)]
    pub profile: Profile,
    /// ECT(1) packets that waited longer are marked, in CoDel's queues.
    #[serde(default)]
    pub l4s_threshold: Option<Nanos>,
    /// DualPI2's base AQM; its own if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseAqm>,
    /// The range of Curvy RED, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Nanos>,
    /// The delay up to which Curvy RED signals nothing, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_threshold: Option<Nanos>,
    /// DualPI2's coupling factor k; its own if there is none.
    #[serde(default)]
    pub coupling: Option<f64>,
    /// The largest burst of a flow in DualPI2's L queue, if there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l4s_burst: Option<Nanos>,
}

impl Queue {
    /// A discipline of this project's with its own parameters.
    pub fn plain(kind: QueueKind, limit: Limit) -> Self {
        Self {
            kind,
            limit,
            by: Maker::Forebay,
            ecn: kind.marks_by_default(),
            target: None,
            interval: None,
            profile: Profile::default(),
            l4s_threshold: None,
            base: None,
            range: None,
            min_threshold: None,
            coupling: None,
            l4s_burst: None,
        }
    }

    /// The limit in bytes on `path`.
    pub fn limit_bytes(&self, path: &Path) -> Bytes {
        self.limit.bytes(path.rate, path.rtt)
    }

    /// The queue that this project has for it at the bottleneck of `path`; `None` if only the
    /// kernel has one.
    pub fn spec(&self, path: &Path) -> Option<QueueSpec> {
        QueueSpec::new(&self.at_bottleneck(path), self.limit_on(path))
    }

    /// What `tc qdisc add` is told for the kernel's queue at the bottleneck of `path`; `None` if
    /// the laboratory cannot have it.
    pub fn tc_arguments(&self, path: &Path) -> Option<String> {
        self.at_bottleneck(path).tc_arguments(self.limit_on(path), path.rate)
    }

    /// The policy that a box has for it. The box does not know its path, so a limit in
    /// bandwidth-delay products goes in bytes. What a scenario does not say is the box's default.
    pub fn policy(&self, path: &Path) -> Discipline {
        let limit = Some(self.policy_limit(path));
        let (target, coupling) = (self.target, self.coupling);
        let settings = Settings { limit, target, coupling, ..Settings::default() };
        Discipline { kind: self.kind, settings }
    }

    /// The limit that a box is told, which does not know its path.
    pub fn policy_limit(&self, path: &Path) -> Limit {
        match self.limit {
            Limit::Bdp(_) => Limit::Bytes(self.limit_bytes(path)),
            other => other,
        }
    }

    /// The discipline at the bottleneck of `path`, before its limit is known.
    fn at_bottleneck(&self, path: &Path) -> Discipline {
        let kind = self.kind;
        let settings = Settings {
            target: self.target,
            interval: self.interval,
            ecn: matches!(kind.ecn(), EcnUse::Optional { .. }).then_some(self.ecn),
            profile: kind.bottleneck_has(Key::Profile).then_some(self.profile),
            l4s_threshold: self.l4s_threshold,
            base: self.base,
            range: self.range,
            min_threshold: self.min_threshold,
            coupling: self.coupling,
            l4s_burst: self.l4s_burst.map(|time| Burst { time, rate: Some(path.rate) }),
            ..Settings::default()
        };
        Discipline { kind, settings }
    }

    fn limit_on(&self, path: &Path) -> LimitOnPath {
        let Path { rate, rtt } = *path;
        LimitOnPath { bytes: self.limit.bytes(rate, rtt), packets: self.limit.packets(rate, rtt) }
    }
}

/// As a cell of a grid is labelled: `fq_codel 1000 packets`, `fifo 1 bdp by kernel`.
impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.limit)?;
        if self.ecn != self.kind.marks_by_default() {
            f.write_str(if self.ecn { " with ecn" } else { " without ecn" })?;
        }
        if let Some(target) = self.target {
            write!(f, " target {} ms", target.as_millis_f64())?;
        }
        if let Some(interval) = self.interval {
            write!(f, " interval {} ms", interval.as_millis_f64())?;
        }
        match self.profile {
            Profile::Rfc => {}
            Profile::Paper => f.write_str(" as in the paper")?,
            Profile::Linux => f.write_str(" as in Linux")?,
        }
        if let Some(threshold) = self.l4s_threshold {
            write!(f, " l4s above {} ms", threshold.as_millis_f64())?;
        }
        if let Some(base) = self.base {
            write!(f, " with {base}")?;
        }
        if let Some(range) = self.range {
            write!(f, " range {} ms", range.as_millis_f64())?;
        }
        if let Some(threshold) = self.min_threshold {
            write!(f, " signals above {} ms", threshold.as_millis_f64())?;
        }
        if let Some(k) = self.coupling {
            write!(f, " k {k}")?;
        }
        if let Some(burst) = self.l4s_burst {
            write!(f, " bursts of {} ms", burst.as_millis_f64())?;
        }
        match self.by {
            Maker::Forebay => Ok(()),
            Maker::Kernel => f.write_str(" by kernel"),
        }
    }
}

/// Whose code a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Maker {
    /// Forebay's own code.
    #[default]
    Forebay,
    /// Linux's own qdisc, which only engines with a real kernel have.
    Kernel,
}

/// `{ kind = "fq_codel", limit = "1000 packets" }` at the bottleneck.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueTable {
    pub(super) kind: Spanned<QueueKind>,
    pub(super) limit: Spanned<Limit>,
    #[serde(default)]
    pub(super) by: Maker,
    pub(super) ecn: Option<Spanned<bool>>,
    pub(super) target: Option<Spanned<DurationValue>>,
    pub(super) interval: Option<Spanned<DurationValue>>,
    pub(super) profile: Option<Spanned<Profile>>,
    pub(super) l4s_threshold: Option<Spanned<DurationValue>>,
    pub(super) base: Option<Spanned<BaseAqm>>,
    pub(super) range: Option<Spanned<DurationValue>>,
    pub(super) min_threshold: Option<Spanned<DurationValue>>,
    pub(super) coupling: Option<Spanned<f64>>,
    pub(super) l4s_burst: Option<Spanned<DurationValue>>,
}

impl QueueTable {
    /// What the table says; whether it fits a path is checked with the path.
    pub(super) fn queue(&self) -> Queue {
        let plain = Queue::plain(*self.kind.get_ref(), *self.limit.get_ref());
        let time = |value: &Option<Spanned<DurationValue>>| value.as_ref().map(|t| t.get_ref().0);
        Queue {
            by: self.by,
            ecn: self.ecn.as_ref().map_or(plain.ecn, |e| *e.get_ref()),
            target: time(&self.target),
            interval: time(&self.interval),
            profile: self.profile.as_ref().map(|p| *p.get_ref()).unwrap_or_default(),
            l4s_threshold: time(&self.l4s_threshold),
            base: self.base.as_ref().map(|base| *base.get_ref()),
            range: time(&self.range),
            min_threshold: time(&self.min_threshold),
            coupling: self.coupling.as_ref().map(|k| *k.get_ref()),
            l4s_burst: time(&self.l4s_burst),
            ..plain
        }
    }
}

/// `{ policy = "sfq", limit = "2000 packets" }` at a sendbox, and more about its bundle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleTable {
    pub(super) policy: Spanned<QueueKind>,
    pub(super) limit: Spanned<Limit>,
    /// The policy's own if left out.
    pub(super) target: Option<Spanned<DurationValue>>,
    /// DualPI2's k; its own if left out.
    pub(super) coupling: Option<Spanned<f64>>,
    /// Forebay's own if left out.
    #[serde(default)]
    controller: ControllerKind,
    #[serde(default = "Detection::cross_traffic_default")]
    cross_traffic: Detection,
    #[serde(default)]
    multipath: Detection,
    /// Where the controller takes one, if left out.
    pub(super) guard: Option<Spanned<bool>>,
    pub(super) min_rate: Option<Spanned<RateValue>>,
    pub(super) max_rate: Option<Spanned<RateValue>>,
    /// Of weighted classes.
    pub(super) classes: Option<Spanned<Vec<Spanned<ClassTable>>>>,
}

impl BundleTable {
    /// What the table says, without classes and rates; whether it fits a path is checked with the
    /// path.
    pub(super) fn bundle(&self) -> Bundle {
        let (kind, limit) = (*self.policy.get_ref(), *self.limit.get_ref());
        let target = self.target.as_ref().map(|t| t.get_ref().0);
        let coupling = self.coupling.as_ref().map(|k| *k.get_ref());
        let queue = Queue { ecn: false, target, coupling, ..Queue::plain(kind, limit) };
        let Self { controller, cross_traffic, multipath, .. } = *self;
        let takes_guard = controller.takes_guard(cross_traffic);
        let guard = self.guard.as_ref().map_or(takes_guard, |guard| *guard.get_ref());
        let (min_rate, max_rate, classes) = (None, None, ClassShares::default());
        Bundle { queue, controller, cross_traffic, multipath, guard, min_rate, max_rate, classes }
    }
}

/// `{ rate = "40 Mbit/s", policy = "dualpi2", limit = "1000 packets" }` of a link's box.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) rate: Spanned<RateValue>,
    pub(super) policy: Spanned<QueueKind>,
    pub(super) limit: Spanned<Limit>,
    #[serde(default)]
    busy_poll: bool,
}

impl LinkTable {
    /// What the table says; whether it fits a path is checked with the path.
    pub(super) fn link(&self) -> LinkBox {
        let queue = Queue::plain(*self.policy.get_ref(), *self.limit.get_ref());
        let queue = Queue { ecn: false, ..queue };
        LinkBox { queue, rate: self.rate.get_ref().0, busy_poll: self.busy_poll }
    }
}
