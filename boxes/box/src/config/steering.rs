use forebay_config::{ConfigError, Prefix, Source, Spanned};
use forebay_discipline::{Kind, QueueOwner};
use serde::Deserialize;

use super::matches::{Lists, Match};

/// A rule that sends packets to one of DualPI2's queues, whatever their ECN field (RFC 9332 section
/// 2.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    /// The queue for these packets.
    pub queue: DualQueue,
    /// The packets of the rule.
    pub matches: Match,
}

/// A queue of DualPI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DualQueue {
    /// The L queue, for low latency.
    LowLatency,
    /// The C queue, for classic traffic.
    Classic,
}

/// The table `[[link.classifier]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassifierTable {
    queue: Spanned<DualQueue>,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    prefixes: Vec<Prefix>,
    #[serde(default)]
    vlans: Vec<Spanned<u16>>,
}

impl ClassifierTable {
    /// Checks the tables of the table `of`, whose queue is of `kind`.
    pub(super) fn check_all(
        source: &Source,
        of: &str,
        owner: &QueueOwner,
        kind: Kind,
        tables: Vec<Self>,
    ) -> Result<Vec<Classifier>, ConfigError> {
        let key = format!("{of}.classifier");
        if let Some(first) = tables.first() {
            let wrong = match (kind, owner) {
                (Kind::DualPi2, QueueOwner::Forebay) => None,
                (Kind::DualPi2, QueueOwner::Kernel(_)) => Some(
                    "goes with `dataplane = \"user\"`: the kernel's goes by the ECN field alone",
                ),
                _ => Some("classifiers go with policy = { kind = \"dualpi2\" } only"),
            };
            if let Some(message) = wrong {
                return Err(source.error_at(first.queue.span(), key, message));
            }
        }
        tables.into_iter().map(|table| table.check(source, &key, owner)).collect()
    }

    fn check(
        self,
        source: &Source,
        key: &str,
        owner: &QueueOwner,
    ) -> Result<Classifier, ConfigError> {
        let Self { queue, dscp, ports, prefixes, vlans } = self;
        let matches = Lists { dscp, ports, prefixes, vlans }.check(source, key, owner)?;
        if matches.is_all() {
            let message =
                "needs dscp, ports, prefixes or vlans: without them it would take everything";
            return Err(source.error_at(queue.span(), key, message));
        }
        Ok(Classifier { queue: queue.into_inner(), matches })
    }
}
