use std::ops::Range;

use forebay_config::{ConfigError, DurationValue, Limit, Source, Spanned};
use forebay_dataplane::in_packets;
pub use forebay_dataplane::{PolicyKind, Profile};
use forebay_queue::{codel, pi2, pie};
use forebay_tc::{self as tc, CakeDiffserv, CakeFlows};
use forebay_units::{Bytes, Nanos};
use ipnet::IpNet;
use serde::Deserialize;

use super::discipline::{Discipline, Offer};
use super::matches::{Lists, Match};
use super::steering::{ClassifierTable, Steering};

/// How a bundle's queue is scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The discipline, for the packets of all classes.
    pub kind: Discipline,
    /// For strict priority: the classes, the most urgent first, each with its own discipline. Empty
    /// for the others.
    pub classes: Vec<Class>,
    /// For DualPI2: what else than the ECN field tells the queue.
    pub steering: Steering,
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
    profile: Option<Spanned<ProfileName>>,
    coupling: Option<Spanned<f64>>,
    queue_protection: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProfileName {
    Rfc9332,
    Paper,
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
    #[serde(default)]
    vlans: Vec<Spanned<u16>>,
    policy: Option<Spanned<PolicyTable>>,
}

/// Of a bundle, and of a class.
pub(super) const DEFAULT: PolicyKind = PolicyKind::Sfq { limit: None, perturb: None };

impl Policy {
    /// What its classes match, the last left out, which takes the rest.
    pub(crate) fn matches(&self) -> impl Iterator<Item = &Match> {
        let all_but_last = self.classes.len().saturating_sub(1);
        self.classes.iter().take(all_but_last).map(|c| &c.matches)
    }

    /// What the tables say that stand in the table `of`; `default` if there is none.
    pub(super) fn check(
        source: &Source,
        of: &str,
        offer: &Offer,
        table: Option<Spanned<PolicyTable>>,
        default: PolicyKind,
        (classes, classifiers): (Vec<ClassTable>, Vec<ClassifierTable>),
    ) -> Result<Self, ConfigError> {
        let key = format!("{of}.policy");
        let (kind, span, queue_protection) = match table {
            None => (default.into(), 0..0, false),
            Some(table) => {
                let (span, table) = (table.span(), table.into_inner());
                let protection = table.queue_protection.as_ref().is_some_and(|p| *p.get_ref());
                (table.check(source, offer, &key)?, span, protection)
            }
        };
        let classifiers = ClassifierTable::check_all(source, of, offer, &kind, classifiers)?;
        let steering = Steering { classifiers, queue_protection };
        if kind != PolicyKind::Strict.into() {
            return match classes.first() {
                None => Ok(Self { kind, classes: Vec::new(), steering }),
                Some(class) => {
                    let message = "classes go with policy = { kind = \"strict\" } only";
                    Err(source.error_at(class.name.span(), format!("{of}.class"), message))
                }
            };
        }
        if classes.is_empty() {
            let message = format!("strict priority needs at least one [[{of}.class]]");
            return Err(source.error_at(span, key, message));
        }
        let last = classes.len() - 1;
        let classes = classes.into_iter().enumerate();
        let classes = classes.map(|(i, c)| c.check(source, of, offer, i == last));
        Ok(Self { kind, classes: classes.collect::<Result<_, _>>()?, steering })
    }
}

/// Where a table is wrong, by which of its keys, and why.
type Wrong = (Range<usize>, &'static str, String);

/// What CAKE's memory has for each packet of a limit: what a full frame takes of the kernel's.
const CAKE_BUFFER: Bytes = Bytes(2_304);

impl PolicyTable {
    fn check(self, source: &Source, offer: &Offer, key: &str) -> Result<Discipline, ConfigError> {
        let wrong = self.wrong_key().or_else(|| self.wrong_limit()).or_else(|| self.wrong_time());
        let wrong = wrong.or_else(|| self.wrong_coupling());
        if let Some((span, name, message)) = wrong {
            return Err(source.error_at(span, format!("{key}.{name}"), message));
        }
        if let (Some(profile), Offer::Kernel(_)) = (&self.profile, offer) {
            let message =
                "this goes with `dataplane = \"user\"`: the kernel's has one set of parameters";
            return Err(source.error_at(profile.span(), format!("{key}.profile"), message));
        }
        if let (Some(coupling), Offer::Kernel(_)) = (&self.coupling, offer) {
            let message = "this goes with `dataplane = \"user\"`: the kernel's has its own";
            return Err(source.error_at(coupling.span(), format!("{key}.coupling"), message));
        }
        if let (Some(protection), Offer::Kernel(_)) = (&self.queue_protection, offer) {
            let message = "this goes with `dataplane = \"user\"`: the kernel's has no such setting";
            let key = format!("{key}.queue_protection");
            return Err(source.error_at(protection.span(), key, message));
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
            Kind::DualPi2 => {
                let profile = match self.profile.map(Spanned::into_inner) {
                    None | Some(ProfileName::Rfc9332) => Profile::Rfc9332,
                    Some(ProfileName::Paper) => Profile::Paper,
                };
                let coupling = self.coupling.map(Spanned::into_inner);
                PolicyKind::DualPi2 { profile, limit, target, coupling }
            }
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
            ("profile", span(&self.profile), &[Kind::DualPi2]),
            ("coupling", span(&self.coupling), &[Kind::DualPi2]),
            ("queue_protection", span(&self.queue_protection), &[Kind::DualPi2]),
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
                "the round trip is not known beforehand: give packets, bytes or a time"
            }
            Limit::Packets(0) | Limit::Time(Nanos::ZERO) => "nothing could wait",
            Limit::Packets(n) if n > MAX_PACKETS => "more than a million packets",
            Limit::Bytes(b) if b < FRAME => "a full packet, 1514 B, would never get in",
            _ => return None,
        };
        Some((limit.span(), "limit", message.to_owned()))
    }

    fn wrong_coupling(&self) -> Option<Wrong> {
        let (least, most) = pi2::COUPLINGS;
        let coupling = self.coupling.as_ref()?;
        let fits = (least..=most).contains(coupling.get_ref());
        (!fits).then(|| (coupling.span(), "coupling", format!("must be from {least} to {most}")))
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
    fn check(
        self,
        source: &Source,
        of: &str,
        offer: &Offer,
        is_last: bool,
    ) -> Result<Class, ConfigError> {
        let key = format!("{of}.class");
        let Self { name, dscp, ports, prefixes, vlans, policy } = self;
        let matches = Lists { dscp, ports, prefixes, vlans }.check(source, &key, offer)?;
        if matches.is_all() != is_last {
            let message = if is_last {
                "the last class takes what no other takes: it has no dscp, ports, prefixes or vlans"
            } else {
                "needs dscp, ports, prefixes or vlans: without them it would take everything"
            };
            return Err(source.error_at(name.span(), key, message));
        }
        let policy = match policy {
            None => DEFAULT.into(),
            Some(table) => {
                let span = table.span();
                let key = format!("{key}.policy");
                let policy = table.into_inner().check(source, offer, &key)?;
                if policy == PolicyKind::Strict.into() {
                    let message = "a class cannot have classes of its own";
                    return Err(source.error_at(span, key, message));
                }
                policy
            }
        };
        Ok(Class { name: name.into_inner(), matches, policy })
    }
}
