use std::ops::Range;

use forebay_config::{ConfigError, DurationValue, Limit, Source, Spanned};
pub use forebay_dataplane::PolicyKind;
use forebay_queue::{codel, pie};
use forebay_units::{Bytes, Nanos};
use ipnet::IpNet;
use serde::Deserialize;

/// How a bundle's queue is scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The discipline, for the packets of all classes.
    pub kind: PolicyKind,
    /// For strict priority: the classes, the most urgent first, each with its own discipline. Empty
    /// for the others.
    pub classes: Vec<Class>,
}

/// A class of strict priority.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What people call it.
    pub name: String,
    /// Which packets are in it.
    pub matches: Match,
    /// How the class itself is scheduled.
    pub policy: PolicyKind,
}

/// Which packets a class takes: those that fit every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    /// Values of the DSCP field.
    pub dscp: Vec<u8>,
    /// Source or destination ports.
    pub ports: Vec<u16>,
    /// Prefixes of the source or the destination address.
    pub prefixes: Vec<IpNet>,
}

impl Match {
    /// Whether it takes everything.
    pub fn is_all(&self) -> bool {
        self.dscp.is_empty() && self.ports.is_empty() && self.prefixes.is_empty()
    }
}

/// `policy = { ... }` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    kind: Kind,
    limit: Option<Spanned<Limit>>,
    perturb: Option<Spanned<DurationValue>>,
    target: Option<Spanned<DurationValue>>,
    interval: Option<Spanned<DurationValue>>,
    ecn: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Fifo,
    Sfq,
    FqCodel,
    Pie,
    Strict,
}

/// `[[bundle.class]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    name: Spanned<String>,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    prefixes: Vec<IpNet>,
    policy: Option<Spanned<PolicyTable>>,
}

const DEFAULT: PolicyKind = PolicyKind::Sfq { limit: None, perturb: None };

impl Policy {
    pub(super) fn check(
        source: &Source,
        table: Option<Spanned<PolicyTable>>,
        classes: Vec<ClassTable>,
    ) -> Result<Self, ConfigError> {
        let Some(table) = table else {
            return Self::without_classes(source, DEFAULT, &classes);
        };
        let span = table.span();
        let kind = table.into_inner().check(source, "bundle.policy")?;
        if kind != PolicyKind::Strict {
            return Self::without_classes(source, kind, &classes);
        }
        if classes.is_empty() {
            let message = "strict priority needs at least one [[bundle.class]]";
            return Err(source.error_at(span, "bundle.policy", message));
        }
        let last = classes.len() - 1;
        let classes = classes.into_iter().enumerate().map(|(i, c)| c.check(source, i == last));
        Ok(Self { kind, classes: classes.collect::<Result<_, _>>()? })
    }

    fn without_classes(
        source: &Source,
        kind: PolicyKind,
        classes: &[ClassTable],
    ) -> Result<Self, ConfigError> {
        if let Some(class) = classes.first() {
            let message = "classes go with policy = { kind = \"strict\" } only";
            return Err(source.error_at(class.name.span(), "bundle.class", message));
        }
        Ok(Self { kind, classes: Vec::new() })
    }
}

/// Where a table is wrong, by which of its keys, and why.
type Wrong = (Range<usize>, &'static str, &'static str);

impl PolicyTable {
    fn check(self, source: &Source, key: &str) -> Result<PolicyKind, ConfigError> {
        let wrong = self.wrong_key().or_else(|| self.wrong_limit()).or_else(|| self.wrong_time());
        if let Some((span, name, message)) = wrong {
            return Err(source.error_at(span, format!("{key}.{name}"), message));
        }
        let limit = self.limit.map(Spanned::into_inner);
        let time = |t: Option<Spanned<DurationValue>>| t.map(|t| t.into_inner().0);
        Ok(match self.kind {
            Kind::Fifo => PolicyKind::Fifo { limit },
            Kind::Sfq => PolicyKind::Sfq { limit, perturb: time(self.perturb) },
            Kind::FqCodel => PolicyKind::FqCodel {
                limit,
                target: time(self.target),
                interval: time(self.interval),
                ecn: self.ecn.is_none_or(Spanned::into_inner),
            },
            Kind::Pie => PolicyKind::Pie {
                limit,
                target: time(self.target),
                ecn: self.ecn.is_none_or(Spanned::into_inner),
            },
            Kind::Strict => PolicyKind::Strict,
        })
    }

    /// A key that goes with another kind.
    fn wrong_key(&self) -> Option<Wrong> {
        let has_aqm = matches!(self.kind, Kind::FqCodel | Kind::Pie);
        if let (Some(target), false) = (&self.target, has_aqm) {
            return Some((target.span(), "target", "this goes with \"fq_codel\" and \"pie\" only"));
        }
        if let (Some(ecn), false) = (&self.ecn, has_aqm) {
            return Some((ecn.span(), "ecn", "this goes with \"fq_codel\" and \"pie\" only"));
        }
        if let (Some(interval), true) = (&self.interval, self.kind != Kind::FqCodel) {
            return Some((interval.span(), "interval", "this goes with kind = \"fq_codel\" only"));
        }
        if let (Some(perturb), true) = (&self.perturb, self.kind != Kind::Sfq) {
            return Some((perturb.span(), "perturb", "this goes with kind = \"sfq\" only"));
        }
        let limit = self.limit.as_ref().filter(|_| self.kind == Kind::Strict)?;
        Some((limit.span(), "limit", "strict priority has a limit for each class"))
    }

    fn wrong_limit(&self) -> Option<Wrong> {
        /// A million full frames are 1.5 GB of buffers.
        const MAX_PACKETS: u64 = 1_000_000;
        /// A full frame.
        const FRAME: Bytes = Bytes(1_514);
        let limit = self.limit.as_ref()?;
        let message = match *limit.get_ref() {
            Limit::Bdp(_) => {
                "a bundle's rate is not known beforehand: give packets, bytes or a time"
            }
            Limit::Packets(0) | Limit::Time(Nanos::ZERO) => "nothing could wait",
            Limit::Packets(n) if n > MAX_PACKETS => "more than a million packets",
            Limit::Bytes(b) if b < FRAME => "a full packet, 1514 B, would never get in",
            _ => return None,
        };
        Some((limit.span(), "limit", message))
    }

    fn wrong_time(&self) -> Option<Wrong> {
        let given = [
            ("perturb", self.perturb.as_ref()),
            ("target", self.target.as_ref()),
            ("interval", self.interval.as_ref()),
        ];
        let given = given.into_iter().filter_map(|(name, time)| Some((name, time?)));
        let defaults = codel::Params::default();
        let of = |time: &Option<Spanned<DurationValue>>| time.as_ref().map(|t| t.get_ref().0);
        let interval = of(&self.interval).unwrap_or(defaults.interval);
        let target = of(&self.target).unwrap_or(defaults.target);
        for (name, time) in given {
            let message = match name {
                _ if time.get_ref().0 == Nanos::ZERO => "must be above zero",
                "interval" if interval > codel::Params::MAX_INTERVAL => "must be at most 4 s",
                "target" if self.kind == Kind::Pie && target > pie::Params::MAX_TIME => {
                    "must be at most a minute"
                }
                "target" | "interval" if self.kind == Kind::FqCodel && target > interval => {
                    "the target is above the interval"
                }
                _ => continue,
            };
            return Some((time.span(), name, message));
        }
        None
    }
}

impl ClassTable {
    fn check(self, source: &Source, is_last: bool) -> Result<Class, ConfigError> {
        if let Some(dscp) = self.dscp.iter().find(|d| *d.get_ref() > 63) {
            let message = format!("{} is no DSCP: 0 to 63", dscp.get_ref());
            return Err(source.error_at(dscp.span(), "bundle.class.dscp", message));
        }
        let matches = Match {
            dscp: self.dscp.into_iter().map(Spanned::into_inner).collect(),
            ports: self.ports,
            prefixes: self.prefixes,
        };
        if matches.is_all() != is_last {
            let message = if is_last {
                "the last class takes what no other takes: it has no dscp, ports or prefixes"
            } else {
                "needs dscp, ports or prefixes: without them it would take everything"
            };
            return Err(source.error_at(self.name.span(), "bundle.class", message));
        }
        let policy = match self.policy {
            None => DEFAULT,
            Some(table) => {
                let span = table.span();
                let policy = table.into_inner().check(source, "bundle.class.policy")?;
                if policy == PolicyKind::Strict {
                    let message = "a class cannot have classes of its own";
                    return Err(source.error_at(span, "bundle.class.policy", message));
                }
                policy
            }
        };
        Ok(Class { name: self.name.into_inner(), matches, policy })
    }
}
