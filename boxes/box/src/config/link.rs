use forebay_config::{ConfigError, Configuration, RateValue, Source, Spanned};
use forebay_dataplane::{Method, Netdev};
use forebay_discipline::{Discipline, Kind, QueueOwner};
use forebay_units::Rate;
use serde::Deserialize;

use super::framing::{Cells, Framing, Overhead};
use super::policy::{ClassTable, Policy, PolicyValue};
use super::steering::ClassifierTable;
use super::{Class, Ports, interface};

/// The configuration of a link: a wire between two interfaces with queues of known rates.
#[derive(Debug)]
pub struct LinkConfig {
    /// The interface towards the network.
    pub outside: Netdev,
    /// The interface towards the hosts, and how frames are moved.
    pub ports: Ports,
    /// The queue from the inside to the outside; `None` if nothing is queued in that direction.
    pub outward: Option<DirectionConfig>,
    /// The queue from the outside to the inside, likewise.
    pub inward: Option<DirectionConfig>,
    /// How the link counts the length of a packet; `None` is the length of the frame.
    pub framing: Option<Framing>,
}

/// The configuration of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionConfig {
    /// The rate of the direction.
    pub rate: Rate,
    /// The policy of its queue.
    pub policy: Policy,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    link: Spanned<LinkTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    inside: Spanned<String>,
    outside: Spanned<String>,
    rate: Option<Spanned<RateValue>>,
    outward: Option<Spanned<RateValue>>,
    inward: Option<Spanned<RateValue>>,
    overhead: Option<Spanned<Overhead>>,
    minimum: Option<Spanned<u16>>,
    cells: Option<Spanned<Cells>>,
    policy: Option<Spanned<PolicyValue>>,
    #[serde(default)]
    class: Vec<ClassTable>,
    #[serde(default)]
    classifier: Vec<ClassifierTable>,
    #[serde(default)]
    method: Method,
    #[serde(default)]
    busy_poll: bool,
}

/// The default policy of a link.
const DEFAULT: Kind = Kind::DualPi2;

impl Configuration for LinkConfig {
    type File = File;

    fn check(file: File, source: &Source) -> Result<Self, ConfigError> {
        let span = file.link.span();
        let table = file.link.into_inner();
        let rates = rates(source, &span, [&table.rate, &table.outward, &table.inward])?;
        let rules = (table.class, table.classifier);
        let owner = QueueOwner::Forebay;
        let limits = [("the rate outward", rates[0]), ("the rate inward", rates[1])];
        let policy = Policy::check(source, "link", &owner, table.policy, DEFAULT, rules, &limits)?;
        let direction = |rate: Option<Rate>| {
            rate.map(|rate| DirectionConfig { rate, policy: at(&policy, rate) })
        };
        let [outward, inward] = rates.map(direction);
        let framing = Framing::check(source, table.overhead, table.minimum, table.cells)?;
        let interfaces = [&table.inside, &table.outside];
        let ports = Ports::check(source, "link", interfaces, table.method, table.busy_poll, None)?;
        let outside = interface(source, "link.outside", &table.outside)?;
        Ok(Self { outside, ports, outward, inward, framing })
    }
}

/// Checks the rates, and returns those outward and inward.
fn rates(
    source: &Source,
    table: &std::ops::Range<usize>,
    [both, outward, inward]: [&Option<Spanned<RateValue>>; 3],
) -> Result<[Option<Rate>; 2], ConfigError> {
    for (key, given) in [("rate", both), ("outward", outward), ("inward", inward)] {
        if let Some(rate) = given.as_ref().filter(|r| r.get_ref().0 == Rate::ZERO) {
            let message = "a rate of zero stops the link";
            return Err(source.error_at(rate.span(), format!("link.{key}"), message));
        }
    }
    let of = |rate: &Option<Spanned<RateValue>>| rate.as_ref().map(|r| r.get_ref().0);
    match (both, outward, inward) {
        (None, None, None) => {
            let message = "missing: how fast the link is (`rate = ...`, or `outward` and `inward`)";
            Err(source.error_at(table.clone(), "link.rate", message))
        }
        (Some(rate), None, None) => Ok([Some(rate.get_ref().0); 2]),
        (Some(rate), _, _) => {
            let message = "is for both directions: remove it, or `outward` and `inward`";
            Err(source.error_at(rate.span(), "link.rate", message))
        }
        (None, outward, inward) => Ok([of(outward), of(inward)]),
    }
}

/// Returns `policy` for a queue whose rate is known.
fn at(policy: &Policy, rate: Rate) -> Policy {
    let of = |discipline: &Discipline| discipline.at_rate(rate);
    let class = |c: &Class| Class { policy: of(&c.policy), ..c.clone() };
    Policy {
        discipline: of(&policy.discipline),
        classes: policy.classes.iter().map(class).collect(),
        classifiers: policy.classifiers.clone(),
    }
}
