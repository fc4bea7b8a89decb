//! The key `policy`: a word, or for DualPI2 a table with its settings.

use std::fmt;

use forebay_config::{ConfigError, Limit, Source};
use forebay_discipline::{Discipline, Kind, PolicyTable, QueueOwner};
use forebay_units::{Bytes, Rate};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::{FULL_FRAME, MAX_PACKET, MAX_PACKETS, Mode, Schedule, VhostTable};

/// The words that a policy may be.
const WORDS: &[&str] = &["fifo", "fair", "strict", "dualpi2"];

/// A policy as it is written.
#[derive(Debug)]
pub(super) enum PolicyValue {
    /// `"fifo"`, which has no settings.
    Fifo,
    /// `"fair"`, which has no settings.
    Fair,
    /// `"strict"`, which has no settings.
    Strict,
    /// `"dualpi2"`, which has its defaults.
    DualPi2,
    /// A table whose `kind` must be `"dualpi2"`.
    Table(Box<PolicyTable>),
}

impl<'de> Deserialize<'de> for PolicyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PolicyValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word such as \"fair\", or a table such as { kind = \"dualpi2\" }")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<PolicyValue, E> {
                match word {
                    "fifo" => Ok(PolicyValue::Fifo),
                    "fair" => Ok(PolicyValue::Fair),
                    "strict" => Ok(PolicyValue::Strict),
                    "dualpi2" => Ok(PolicyValue::DualPi2),
                    other => Err(E::unknown_variant(other, WORDS)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<PolicyValue, A::Error> {
                let table = PolicyTable::deserialize(MapAccessDeserializer::new(table))?;
                Ok(PolicyValue::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Checks the policy of a buffer that is emptied at `rate`.
pub(super) fn check(
    source: &Source,
    table: &VhostTable,
    rate: Option<Rate>,
) -> Result<Schedule, ConfigError> {
    const KEY: &str = "vhost.policy";
    let Some(policy) = &table.policy else { return Ok(Schedule::default()) };
    let refused = |message: String| Err(source.error_at(policy.span(), KEY, message));
    let discipline = match policy.get_ref() {
        PolicyValue::Fifo => return Ok(Schedule::Fifo),
        PolicyValue::Fair => return Ok(Schedule::Fair),
        PolicyValue::Strict => return Ok(Schedule::Strict),
        PolicyValue::DualPi2 => Discipline::from(Kind::DualPi2),
        PolicyValue::Table(policy) => policy.check(source, &QueueOwner::Forebay, KEY)?,
    };
    if discipline.kind != Kind::DualPi2 {
        let words = WORDS.join("\", \"");
        return refused(format!("a table is of kind \"dualpi2\"; without a table: \"{words}\""));
    }
    if discipline.settings.limit.is_some() {
        return refused("has no limit of its own: set vhost.limit".to_owned());
    }
    if discipline.settings.l4s_burst.is_some() && rate.is_none() {
        return refused("l4s_burst goes with vhost.rate".to_owned());
    }
    let discipline = limited(discipline, table, rate);
    if table.mode == Mode::Zd
        && let Some(message) = hides_the_queue(&discipline, table, rate)
    {
        return refused(message);
    }
    Ok(Schedule::DualPi2(discipline.settings))
}

/// Gives `discipline` the buffer's limit: by default 250 ms at the rate (RFC 9332 Figure 2, line
/// 5) and two of the longest packets, and as many packets as with other policies without a rate.
fn limited(mut discipline: Discipline, table: &VhostTable, rate: Option<Rate>) -> Discipline {
    let given = table.limit.as_ref().map(|limit| *limit.get_ref());
    let packets = Limit::Packets(forebay_queue::Limit::default().packets.into());
    discipline.settings.limit = given.or(rate.is_none().then_some(packets));
    let mut discipline = rate.map_or(discipline, |rate| discipline.at_rate(rate));
    if let Some(Limit::Bytes(bytes)) = &mut discipline.settings.limit {
        *bytes = (*bytes).max(Bytes(2 * MAX_PACKET));
    }
    discipline
}

/// Returns why DualPI2 would not see the queue in mode zD; `None` if it does.
///
/// An AQM controls the packets that wait in its own queues. With zD the rest of a guest's queue is
/// in its ring, where nothing is marked and where L4S packets wait behind classic ones. So the
/// buffer must hold all of the queue that DualPI2 controls.
fn hides_the_queue(
    discipline: &Discipline,
    table: &VhostTable,
    rate: Option<Rate>,
) -> Option<String> {
    let start = "with mode = \"zd\" packets wait in the rings, where DualPI2 does not see them";
    let (Some(rate), Some(delay)) = (rate, discipline.controlled_delay()) else {
        return Some(format!("{start}: set mode = \"drop\""));
    };
    let least = rate.bytes_in(delay).0.div_ceil(FULL_FRAME).max(2);
    let held = match discipline.settings.limit {
        Some(Limit::Bytes(bytes)) => bytes.0 / FULL_FRAME,
        Some(Limit::Packets(packets)) => packets,
        _ => MAX_PACKETS,
    };
    let own = table.in_buffer.as_ref().map_or(0, |own| u64::from(*own.get_ref()));
    let ms = delay.as_millis_f64();
    if least > u64::from(u16::MAX) {
        Some(format!("{start}: set mode = \"drop\""))
    } else if own < least {
        Some(format!(
            "{start}: set mode = \"drop\", or in_buffer to at least {least}, which is {ms} ms"
        ))
    } else if held < least {
        Some(format!("{start}: set mode = \"drop\", or limit to at least {ms} ms"))
    } else {
        None
    }
}
