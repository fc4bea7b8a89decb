use std::fmt;
use std::iter;
use std::ops::Range;

use forebay_config::{ConfigError, Prefix, RateValue, Source, Spanned};
use forebay_discipline::{Discipline, Kind, PolicyTable, QueueOwner};
use forebay_units::Rate;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

use super::matches::{Lists, Match};
use super::share::{Share, ShareKeys};
use super::steering::{Classifier, ClassifierTable};

/// The policy of a queue: its discipline and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The discipline of the bundle's queue.
    pub discipline: Discipline,
    /// For strict priority, the most urgent first, or for weighted classes: the classes, each with
    /// its own discipline. Empty for the others.
    pub classes: Vec<Class>,
    /// For DualPI2: the rules that send packets to a queue whatever their ECN field. The first that
    /// fits decides; where none does, the ECN field.
    pub classifiers: Vec<Classifier>,
}

/// A class of strict priority, or a weighted one.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name of the class.
    pub name: String,
    /// The packets of the class.
    pub matches: Match,
    /// The discipline of the class.
    pub policy: Discipline,
    /// The share of a weighted class in the rate of its bundle.
    pub share: Share,
}

/// The table `[[bundle.class]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    name: Spanned<String>,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    prefixes: Vec<Prefix>,
    #[serde(default)]
    vlans: Vec<Spanned<u16>>,
    policy: Option<Spanned<PolicyValue>>,
    weight: Option<Spanned<u32>>,
    rate: Option<Spanned<RateValue>>,
    ceil: Option<Spanned<RateValue>>,
}

/// A policy as it is written: a word, `"fq_codel"`, or a table.
#[derive(Debug)]
pub(super) enum PolicyValue {
    Word(Kind),
    Table(Box<PolicyTable>),
}

impl<'de> Deserialize<'de> for PolicyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PolicyValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a word such as \"fq_codel\", or a table such as { kind = \"fq_codel\" }",
                )
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<PolicyValue, E> {
                Kind::deserialize(word.into_deserializer()).map(PolicyValue::Word)
            }
            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<PolicyValue, A::Error> {
                let table = PolicyTable::deserialize(MapAccessDeserializer::new(table))?;
                Ok(PolicyValue::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl PolicyValue {
    pub(super) fn check(
        value: &Spanned<Self>,
        source: &Source,
        owner: &QueueOwner,
        key: &str,
    ) -> Result<Discipline, ConfigError> {
        match value.get_ref() {
            Self::Word(kind) => {
                PolicyTable::of(Spanned::new(value.span(), *kind)).check(source, owner, key)
            }
            Self::Table(table) => table.check(source, owner, key),
        }
    }
}

/// The default policy of a bundle, and of a class.
pub(super) const DEFAULT: Kind = Kind::Sfq;

impl Policy {
    /// Returns the matches of the classes without the last, which takes the rest.
    pub(crate) fn matches(&self) -> impl Iterator<Item = &Match> {
        let all_but_last = self.classes.len().saturating_sub(1);
        self.classes.iter().take(all_but_last).map(|c| &c.matches)
    }

    /// Returns the policy's own discipline and those of its classes.
    pub(super) fn disciplines(&self) -> impl Iterator<Item = &Discipline> {
        iter::once(&self.discipline).chain(self.classes.iter().map(|class| &class.policy))
    }

    /// Whether the classes have shares in the rate.
    pub(crate) fn is_weighted(&self) -> bool {
        self.discipline.kind == Kind::Weighted
    }

    /// Returns the shares of weighted classes.
    pub(crate) fn shares(&self) -> impl Iterator<Item = Share> {
        self.classes.iter().filter(|_| self.is_weighted()).map(|class| class.share)
    }

    /// Whether `other` differs in the shares of classes only, or not at all.
    pub(crate) fn differs_in_shares(&self, other: &Self) -> bool {
        let shared = |policy: &Self| {
            let class = |class: &Class| Class { share: Share::default(), ..class.clone() };
            Self { classes: policy.classes.iter().map(class).collect(), ..policy.clone() }
        };
        self.is_weighted() && shared(self) == shared(other)
    }

    /// Checks the tables inside the table `of`; without a policy `default` counts. The queue's rate
    /// is never above any of `limits`, each of which has a name.
    pub(super) fn check(
        source: &Source,
        of: &str,
        owner: &QueueOwner,
        table: Option<Spanned<PolicyValue>>,
        default: Kind,
        (classes, classifiers): (Vec<ClassTable>, Vec<ClassifierTable>),
        limits: &[(&str, Option<Rate>)],
    ) -> Result<Self, ConfigError> {
        let key = format!("{of}.policy");
        let (discipline, span) = match table {
            None => (default.into(), 0..0),
            Some(table) => (PolicyValue::check(&table, source, owner, &key)?, table.span()),
        };
        let kind = discipline.kind;
        let classifiers = ClassifierTable::check_all(source, of, owner, kind, classifiers)?;
        if !kind.is_classful() {
            return match classes.first() {
                None => Ok(Self { discipline, classes: Vec::new(), classifiers }),
                Some(class) => {
                    let message = "classes go with policy = { kind = \"strict\" } or \"weighted\"";
                    Err(source.error_at(class.name.span(), format!("{of}.class"), message))
                }
            };
        }
        let few = match kind {
            Kind::Weighted if classes.len() < 2 => Some("weighted classes need at least two"),
            _ if classes.is_empty() => Some("strict priority needs at least one"),
            _ => None,
        };
        if let Some(few) = few {
            let message = format!("{few} [[{of}.class]]");
            return Err(source.error_at(span, key, message));
        }
        let last = classes.len() - 1;
        let mut sum = 0;
        let mut checked: Vec<Class> = Vec::with_capacity(classes.len());
        for (index, table) in classes.into_iter().enumerate() {
            let (name, rate) = (table.name.span(), table.rate.as_ref().map(Spanned::span));
            let class = table.check(source, of, owner, kind, index == last)?;
            if let Some(before) =
                checked.iter().find(|before| before.matches.covers(&class.matches))
                && kind == Kind::Weighted
            {
                let message = format!(
                    "no packet belongs to it, since the class {} before it takes them all: change \
                     one of them, or remove it",
                    before.name
                );
                return Err(source.error_at(name, format!("{of}.class"), message));
            }
            sum = class.share.rate.map_or(sum, |rate| rate.as_bps().saturating_add(sum));
            check_sum(source, of, rate, Rate::from_bps(sum), limits)?;
            checked.push(class);
        }
        Ok(Self { discipline, classes: checked, classifiers })
    }
}

/// Refuses guaranteed rates of classes whose `sum` so far is above one of `limits`. The last of
/// them is at `span`.
fn check_sum(
    source: &Source,
    of: &str,
    span: Option<Range<usize>>,
    sum: Rate,
    limits: &[(&str, Option<Rate>)],
) -> Result<(), ConfigError> {
    let Some(span) = span else { return Ok(()) };
    for (name, limit) in limits {
        if let Some(limit) = limit.filter(|limit| sum > *limit) {
            let message = format!(
                "the rates of the classes add up to {sum}, above {name} ({limit}): lower them"
            );
            return Err(source.error_at(span, format!("{of}.class.rate"), message));
        }
    }
    Ok(())
}

impl ClassTable {
    fn check(
        self,
        source: &Source,
        of: &str,
        owner: &QueueOwner,
        kind: Kind,
        is_last: bool,
    ) -> Result<Class, ConfigError> {
        let key = format!("{of}.class");
        let Self { name, dscp, ports, prefixes, vlans, policy, weight, rate, ceil } = self;
        let share = ShareKeys { weight, rate, ceil };
        if let Some((given, span)) = share.given()
            && kind != Kind::Weighted
        {
            let message =
                "goes with policy = { kind = \"weighted\" }: strict priority has no shares";
            return Err(source.error_at(span, format!("{key}.{given}"), message));
        }
        let share = share.check_values(source, &key, "class")?;
        let matches = Lists { dscp, ports, prefixes, vlans }.check(source, &key, owner)?;
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
                let key = format!("{key}.policy");
                let policy = PolicyValue::check(&table, source, owner, &key)?;
                if policy.kind.is_classful() {
                    let message = "a class cannot have classes of its own";
                    return Err(source.error_at(table.span(), key, message));
                }
                policy
            }
        };
        if let (Kind::Weighted, QueueOwner::Kernel(Some(features)), Some(queue)) =
            (kind, owner, policy.to_tc())
            && features.lacks(&queue)
        {
            let message = format!(
                "this kernel has no {}, and nothing stands in for it in a weighted class: use fifo \
                 or another policy",
                policy.kind.kernel_name()
            );
            return Err(source.error_at(name.span(), format!("{key}.policy"), message));
        }
        Ok(Class { name: name.into_inner(), matches, policy, share })
    }
}
