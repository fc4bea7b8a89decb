use std::ops::Range;

use forebay_config::{ConfigError, DurationValue, Limit, Source, Spanned};
pub use forebay_dataplane::PolicyKind;
use forebay_dataplane::in_packets;
use forebay_queue::{codel, pie};
use forebay_tc::{self as tc, CakeDiffserv, CakeFlows};
use forebay_units::{Bytes, Nanos};
use ipnet::IpNet;
use serde::Deserialize;

use super::discipline::{Discipline, Offer};

/// How a bundle's queue is scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The discipline, for the packets of all classes.
    pub kind: Discipline,
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
    pub policy: Discipline,
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
    kind: Spanned<Kind>,
    limit: Option<Spanned<Limit>>,
    perturb: Option<Spanned<DurationValue>>,
    target: Option<Spanned<DurationValue>>,
    interval: Option<Spanned<DurationValue>>,
    ecn: Option<Spanned<bool>>,
    rtt: Option<Spanned<DurationValue>>,
    flows: Option<Spanned<CakeFlows>>,
    diffserv: Option<Spanned<CakeDiffserv>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Fifo,
    Sfq,
    FqCodel,
    Pie,
    FqPie,
    Cake,
    #[serde(rename = "dualpi2")]
    DualPi2,
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
        offer: &Offer,
        table: Option<Spanned<PolicyTable>>,
        classes: Vec<ClassTable>,
    ) -> Result<Self, ConfigError> {
        let Some(table) = table else {
            return Self::without_classes(source, DEFAULT.into(), &classes);
        };
        let span = table.span();
        let kind = table.into_inner().check(source, offer, "bundle.policy")?;
        if kind != PolicyKind::Strict.into() {
            return Self::without_classes(source, kind, &classes);
        }
        if classes.is_empty() {
            let message = "strict priority needs at least one [[bundle.class]]";
            return Err(source.error_at(span, "bundle.policy", message));
        }
        let last = classes.len() - 1;
        let classes = classes.into_iter().enumerate();
        let classes = classes.map(|(i, c)| c.check(source, offer, i == last));
        Ok(Self { kind, classes: classes.collect::<Result<_, _>>()? })
    }

    fn without_classes(
        source: &Source,
        kind: Discipline,
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
type Wrong = (Range<usize>, &'static str, String);

/// What CAKE's memory has for each packet of a limit: what a full frame takes of the kernel's.
const CAKE_BUFFER: Bytes = Bytes(2_304);

impl PolicyTable {
    fn check(self, source: &Source, offer: &Offer, key: &str) -> Result<Discipline, ConfigError> {
        let wrong = self.wrong_key().or_else(|| self.wrong_limit()).or_else(|| self.wrong_time());
        if let Some((span, name, message)) = wrong {
            return Err(source.error_at(span, format!("{key}.{name}"), message));
        }
        let span = self.kind.span();
        let discipline = self.discipline();
        match offer.lacks(&discipline) {
            Some(message) => Err(source.error_at(span, format!("{key}.kind"), message)),
            None => Ok(discipline),
        }
    }

    fn discipline(self) -> Discipline {
        let limit = self.limit.map(Spanned::into_inner);
        let packets = limit.map(in_packets);
        let time = |t: Option<Spanned<DurationValue>>| t.map(|t| t.into_inner().0);
        let (perturb, target, interval) =
            (time(self.perturb), time(self.target), time(self.interval));
        let ecn = self.ecn.is_none_or(Spanned::into_inner);
        let own = match self.kind.into_inner() {
            Kind::Fifo => PolicyKind::Fifo { limit },
            Kind::Sfq => PolicyKind::Sfq { limit, perturb },
            Kind::FqCodel => PolicyKind::FqCodel { limit, target, interval, ecn },
            Kind::Pie => PolicyKind::Pie { limit, target, ecn },
            Kind::Strict => PolicyKind::Strict,
            Kind::FqPie => {
                let kernel = tc::Discipline::FqPie { limit: packets, target, ecn };
                return Discipline::Kernel(kernel);
            }
            Kind::Cake => {
                return Discipline::Kernel(tc::Discipline::Cake {
                    memory: packets.map(|n| Bytes(u64::from(n) * CAKE_BUFFER.0)),
                    rtt: time(self.rtt),
                    flows: self.flows.map(Spanned::into_inner),
                    diffserv: self.diffserv.map(Spanned::into_inner),
                });
            }
            Kind::DualPi2 => {
                return Discipline::Kernel(tc::Discipline::DualPi2 { limit: packets, target });
            }
        };
        own.into()
    }

    /// A key that goes with another kind.
    fn wrong_key(&self) -> Option<Wrong> {
        const CAKE: &[Kind] = &[Kind::Cake];
        const HAVE_TARGET: &[Kind] = &[Kind::FqCodel, Kind::Pie, Kind::FqPie, Kind::DualPi2];
        const HAVE_ECN: &[Kind] = &[Kind::FqCodel, Kind::Pie, Kind::FqPie];
        fn span<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
            value.as_ref().map(Spanned::span)
        }
        let kind = *self.kind.get_ref();
        let given = [
            ("target", span(&self.target), HAVE_TARGET),
            ("ecn", span(&self.ecn), HAVE_ECN),
            ("interval", span(&self.interval), &[Kind::FqCodel]),
            ("perturb", span(&self.perturb), &[Kind::Sfq]),
            ("rtt", span(&self.rtt), CAKE),
            ("flows", span(&self.flows), CAKE),
            ("diffserv", span(&self.diffserv), CAKE),
        ];
        for (name, span, kinds) in given {
            if let Some(span) = span
                && !kinds.contains(&kind)
            {
                let kinds: Vec<_> = kinds.iter().map(|k| format!("\"{}\"", k.name())).collect();
                let message = match kinds.as_slice() {
                    [most @ .., last] if !most.is_empty() => {
                        format!("this goes with {} and {last} only", most.join(", "))
                    }
                    only => format!("this goes with kind = {} only", only.concat()),
                };
                return Some((span, name, message));
            }
        }
        let limit = self.limit.as_ref().filter(|_| kind == Kind::Strict)?;
        let message = "strict priority has a limit for each class";
        Some((limit.span(), "limit", message.to_owned()))
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
        Some((limit.span(), "limit", message.to_owned()))
    }

    fn wrong_time(&self) -> Option<Wrong> {
        let given = [
            ("perturb", self.perturb.as_ref()),
            ("target", self.target.as_ref()),
            ("interval", self.interval.as_ref()),
            ("rtt", self.rtt.as_ref()),
        ];
        let given = given.into_iter().filter_map(|(name, time)| Some((name, time?)));
        let defaults = codel::Params::default();
        let of = |time: &Option<Spanned<DurationValue>>| time.as_ref().map(|t| t.get_ref().0);
        let interval = of(&self.interval).unwrap_or(defaults.interval);
        let target = of(&self.target).unwrap_or(defaults.target);
        let kind = *self.kind.get_ref();
        for (name, time) in given {
            let message = match name {
                _ if time.get_ref().0 == Nanos::ZERO => "must be above zero",
                "interval" if interval > codel::Params::MAX_INTERVAL => "must be at most 4 s",
                "target" if kind == Kind::FqCodel && target > interval => {
                    "the target is above the interval"
                }
                "target" if kind != Kind::FqCodel && target > pie::Params::MAX_TIME => {
                    "must be at most a minute"
                }
                "interval" if target > interval => "the target is above the interval",
                "rtt" if time.get_ref().0 > pie::Params::MAX_TIME => "must be at most a minute",
                _ => continue,
            };
            return Some((time.span(), name, message.to_owned()));
        }
        None
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Sfq => "sfq",
            Self::FqCodel => "fq_codel",
            Self::Pie => "pie",
            Self::FqPie => "fq_pie",
            Self::Cake => "cake",
            Self::DualPi2 => "dualpi2",
            Self::Strict => "strict",
        }
    }
}

impl ClassTable {
    fn check(self, source: &Source, offer: &Offer, is_last: bool) -> Result<Class, ConfigError> {
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
            None => DEFAULT.into(),
            Some(table) => {
                let span = table.span();
                let policy = table.into_inner().check(source, offer, "bundle.class.policy")?;
                if policy == PolicyKind::Strict.into() {
                    let message = "a class cannot have classes of its own";
                    return Err(source.error_at(span, "bundle.class.policy", message));
                }
                policy
            }
        };
        Ok(Class { name: self.name.into_inner(), matches, policy })
    }
}
