//! Experiment files as they are written. Every value keeps its place, for the checks that follow.

use std::fmt;
use std::ops::Range;

use forebay_config::{DurationValue, Limit, RateValue, SizeValue, Spanned};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::Congestion;
use super::fault::FaultTable;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) title: String,
    /// 4 or 6; 4 if left out.
    pub(super) ip: Option<Spanned<u8>>,
    pub(super) duration: Spanned<DurationValue>,
    pub(super) warmup: Option<Spanned<DurationValue>>,
    pub(super) cooldown: Option<Spanned<DurationValue>>,
    /// `[1]` if left out.
    pub(super) seeds: Option<Spanned<Vec<u64>>>,
    pub(super) path: Spanned<PathTable>,
    #[serde(default)]
    pub(super) grid: GridTable,
    #[serde(default)]
    pub(super) traffic: Vec<Spanned<TrafficTable>>,
    #[serde(default)]
    pub(super) arm: Vec<Spanned<ArmTable>>,
    #[serde(default)]
    pub(super) fault: Vec<FaultTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathTable {
    pub(super) rate: Option<Spanned<RateValue>>,
    pub(super) rtt: Option<Spanned<DurationValue>>,
    pub(super) queue: Spanned<QueueTable>,
}

/// What the cells of the experiment differ in; their cross product.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GridTable {
    pub(super) rate: Option<Spanned<Vec<Spanned<RateValue>>>>,
    pub(super) rtt: Option<Spanned<Vec<Spanned<DurationValue>>>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QueueKindName {
    Fifo,
    Sfq,
    FqCodel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueTable {
    pub(super) kind: QueueKindName,
    pub(super) limit: Spanned<Limit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArmTable {
    pub(super) name: Spanned<String>,
    pub(super) sendbox: Spanned<SendboxValue>,
    /// The path's queue if left out.
    pub(super) queue: Option<Spanned<QueueTable>>,
}

/// `"forward"`, or a table with the bundle's policy.
pub(super) enum SendboxValue {
    Forward,
    Bundle(PolicyTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    pub(super) policy: QueueKindName,
    pub(super) limit: Spanned<Limit>,
}

impl<'de> Deserialize<'de> for SendboxValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SendboxValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"forward\" or a table such as { policy = \"sfq\", limit = \"2000 packets\" }",
                )
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<SendboxValue, E> {
                match text {
                    "forward" => Ok(SendboxValue::Forward),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SendboxValue, A::Error> {
                PolicyTable::deserialize(MapAccessDeserializer::new(map)).map(SendboxValue::Bundle)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindName {
    Requests,
    Bulk,
    UdpRr,
    Cbr,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromName {
    SiteA,
    Cross,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TransportName {
    Tcp,
    Udp,
}

/// The keys of all kinds of traffic; which a kind has is checked later, where errors have a place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficTable {
    pub(super) name: Spanned<String>,
    pub(super) kind: KindName,
    pub(super) from: Option<FromName>,
    pub(super) start: Option<Spanned<DurationValue>>,
    pub(super) stop: Option<Spanned<DurationValue>>,
    pub(super) congestion: Option<Spanned<Congestion>>,
    /// A rate, or a share of the path's: `"50 %"`.
    pub(super) load: Option<Spanned<String>>,
    pub(super) connections: Option<Spanned<u32>>,
    /// `"web"`, or a file beside the experiment's.
    pub(super) sizes: Option<Spanned<String>>,
    pub(super) max_size: Option<Spanned<SizeValue>>,
    pub(super) balanced: Option<Spanned<bool>>,
    pub(super) flows: Option<Spanned<u32>>,
    pub(super) transport: Option<Spanned<TransportName>>,
    /// As `load`.
    pub(super) rate: Option<Spanned<String>>,
    pub(super) size: Option<Spanned<SizeValue>>,
}

impl TrafficTable {
    /// The keys that only some kinds have and that were given, with their places.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        fn at<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
            value.as_ref().map(Spanned::span)
        }
        [
            ("congestion", at(&self.congestion)),
            ("load", at(&self.load)),
            ("connections", at(&self.connections)),
            ("sizes", at(&self.sizes)),
            ("max_size", at(&self.max_size)),
            ("balanced", at(&self.balanced)),
            ("flows", at(&self.flows)),
            ("transport", at(&self.transport)),
            ("rate", at(&self.rate)),
            ("size", at(&self.size)),
        ]
        .into_iter()
        .filter_map(|(key, span)| Some((key, span?)))
    }
}

impl KindName {
    /// The kind's name and the keys of [`TrafficTable::given`] that it has.
    pub(super) const fn keys(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Requests => (
                "requests",
                &["load", "connections", "sizes", "max_size", "balanced", "congestion"],
            ),
            Self::Bulk => ("bulk", &["flows", "transport", "congestion"]),
            Self::UdpRr => ("udp_rr", &["flows"]),
            Self::Cbr => ("cbr", &["rate", "size"]),
        }
    }
}
