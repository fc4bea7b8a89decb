use std::fmt;

use forebay_config::{ConfigError, Prefix, Source, Spanned};
use forebay_discipline::{Discipline, Kind, PolicyTable, QueueOwner};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

use super::matches::{Lists, Match};
use super::steering::{Classifier, ClassifierTable};

/// The policy of a queue: its discipline and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The discipline of the bundle's queue.
    pub discipline: Discipline,
    /// For strict priority: the classes, the most urgent first, each with its own discipline. Empty
    /// for the others.
    pub classes: Vec<Class>,
    /// For DualPI2: the rules that send packets to a queue whatever their ECN field. The first that
    /// fits decides; where none does, the ECN field.
    pub classifiers: Vec<Classifier>,
}

/// A class of strict priority.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name of the class.
    pub name: String,
    /// The packets of the class.
    pub matches: Match,
    /// The discipline of the class.
    pub policy: Discipline,
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

    /// Checks the tables inside the table `of`; without a policy `default` counts.
    pub(super) fn check(
        source: &Source,
        of: &str,
        owner: &QueueOwner,
        table: Option<Spanned<PolicyValue>>,
        default: Kind,
        (classes, classifiers): (Vec<ClassTable>, Vec<ClassifierTable>),
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
        let classes = classes.map(|(i, c)| c.check(source, of, owner, i == last));
        Ok(Self { discipline, classes: classes.collect::<Result<_, _>>()?, classifiers })
    }
}

impl ClassTable {
    fn check(
        self,
        source: &Source,
        of: &str,
        owner: &QueueOwner,
        is_last: bool,
    ) -> Result<Class, ConfigError> {
        let key = format!("{of}.class");
        let Self { name, dscp, ports, prefixes, vlans, policy } = self;
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
        Ok(Class { name: name.into_inner(), matches, policy })
    }
}
