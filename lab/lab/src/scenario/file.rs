//! The tables of experiment files. Values keep their position, so that errors of later checks name
//! it.

use std::fmt;
use std::ops::Range;

use forebay_config::{DurationValue, RateValue, ShareValue, SizeValue, Spanned};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::conditions::{
    BackTable, JitterValue, LossValue, PolicerTable, SiteTable, StepTable, WayTable,
};
use super::draw::DrawTable;
use super::fault::FaultTable;
use super::phase::PhaseTable;
use super::queue::{BundleTable, LinkTable, QueueTable};
use super::{CongestionName, EcnField, Records, Spread};
use crate::workload::Arrivals;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) title: String,
    /// The IP version, 4 or 6; 4 by default.
    pub(super) ip: Option<Spanned<u8>>,
    /// Whether hosts request ECN.
    #[serde(default)]
    pub(super) ecn: bool,
    /// Whether TCP paces even where its congestion control does not ask for it.
    #[serde(default)]
    pub(super) paced: bool,
    /// The largest burst in segments, like `gso_max_segs` of Linux's interfaces; unlimited by
    /// default.
    pub(super) largest_burst: Option<Spanned<u32>>,
    /// What a run keeps; all records by default.
    #[serde(default)]
    pub(super) records: Records,
    /// The number of sites; 1 by default.
    pub(super) sites: Option<Spanned<u32>>,
    pub(super) duration: Spanned<DurationValue>,
    pub(super) warmup: Option<Spanned<DurationValue>>,
    pub(super) cooldown: Option<Spanned<DurationValue>>,
    /// The seeds; `[1]` by default.
    pub(super) seeds: Option<Spanned<Vec<u64>>>,
    pub(super) path: Spanned<PathTable>,
    /// The paths of the sites, in their order.
    #[serde(default)]
    pub(super) site: Vec<Spanned<SiteTable>>,
    /// Random paths of the grid's cells; the whole cross product by default.
    pub(super) draw: Option<DrawTable>,
    #[serde(default)]
    pub(super) grid: GridTable,
    #[serde(default)]
    pub(super) traffic: Vec<Spanned<TrafficTable>>,
    #[serde(default)]
    pub(super) arm: Vec<Spanned<ArmTable>>,
    #[serde(default)]
    pub(super) phase: Vec<PhaseTable>,
    #[serde(default)]
    pub(super) fault: Vec<FaultTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathTable {
    pub(super) rate: Option<Spanned<RateValue>>,
    pub(super) rtt: Option<Spanned<DurationValue>>,
    pub(super) queue: Option<Spanned<QueueTable>>,
    pub(super) steps: Option<Spanned<Vec<StepTable>>>,
    /// The name of a trace file beside the experiment's file.
    pub(super) trace: Option<Spanned<String>>,
    /// The name of a file of delays beside the experiment's file.
    pub(super) delay_trace: Option<Spanned<String>>,
    pub(super) loss: Option<Spanned<LossValue>>,
    pub(super) feedback_loss: Option<ShareValue>,
    pub(super) jitter: Option<Spanned<JitterValue>>,
    #[serde(default)]
    pub(super) way: Vec<Spanned<WayTable>>,
    /// The number of equal ways, instead of `[[path.way]]`.
    pub(super) ways: Option<Spanned<u32>>,
    pub(super) spread: Option<Spanned<Spread>>,
    /// A policer in front of the bottleneck's queue.
    pub(super) policer: Option<Spanned<PolicerTable>>,
    /// The bottleneck of the way back; none by default.
    pub(super) back: Option<Spanned<BackTable>>,
}

/// `[grid]`: the axes along which the cells of the experiment differ. The cells are the cross
/// product.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GridTable {
    pub(super) rate: Axis<RateValue>,
    pub(super) rtt: Axis<DurationValue>,
    pub(super) queue: Axis<QueueTable>,
    /// The number of flows of bulk traffic without `flows`.
    pub(super) flows: Axis<u32>,
    /// The congestion control of TCP traffic without `congestion`.
    pub(super) congestion: Axis<CongestionName>,
    /// The load of requests without `load`, and the rate of datagrams without `rate`.
    pub(super) load: Axis<String>,
    /// The numbers of flows of all bulk traffics, in their order.
    pub(super) mix: Axis<Vec<u32>>,
    /// The round-trip times of all bulk traffics, in their order.
    pub(super) rtts: Axis<Vec<DurationValue>>,
    /// The number of equal ways of the path.
    pub(super) ways: Axis<u32>,
}

/// The values along one axis; `None` if the grid does not have it.
pub(super) type Axis<T> = Option<Spanned<Vec<Spanned<T>>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArmTable {
    pub(super) name: Spanned<String>,
    /// The sendbox; an arm has this, `link` or `program`.
    pub(super) sendbox: Option<Spanned<SendboxValue>>,
    pub(super) link: Option<Spanned<LinkTable>>,
    /// A program, whose path is relative to the experiment's file, and its arguments.
    pub(super) program: Option<Spanned<Vec<String>>>,
    /// The queue at the bottleneck; the path's by default.
    pub(super) queue: Option<Spanned<QueueTable>>,
    /// When the sendbox begins to control; at the start of the run by default.
    pub(super) start: Option<Spanned<DurationValue>>,
    /// The bundle of an outer sendbox; none by default.
    pub(super) outer: Option<Spanned<BundleTable>>,
}

/// `sendbox`: `"forward"`, or a table that describes the bundle.
pub(super) enum SendboxValue {
    Forward,
    Bundle(Box<BundleTable>),
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
                let table = BundleTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SendboxValue::Bundle(Box::new(table)))
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
    OnOff,
    Video,
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

/// A traffic with the keys of all kinds. A later check refuses keys that its kind does not have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficTable {
    pub(super) name: Spanned<String>,
    pub(super) kind: KindName,
    pub(super) from: Option<FromName>,
    /// The number of the site; 1 by default.
    pub(super) site: Option<Spanned<u32>>,
    /// The class, of which 1 is the most urgent; 1 by default.
    pub(super) class: Option<Spanned<u8>>,
    pub(super) ecn: Option<Spanned<EcnField>>,
    pub(super) rtt: Option<Spanned<DurationValue>>,
    /// The phase in which it is on, instead of `start` and `stop`.
    pub(super) phase: Option<Spanned<String>>,
    pub(super) start: Option<Spanned<DurationValue>>,
    pub(super) stop: Option<Spanned<DurationValue>>,
    pub(super) congestion: Option<Spanned<CongestionName>>,
    /// The window in packets of the congestion control "fixed".
    pub(super) window: Option<Spanned<u32>>,
    /// A rate, or a share of the path's rate such as `"50 %"`.
    pub(super) load: Option<Spanned<String>>,
    pub(super) connections: Option<Spanned<u32>>,
    /// `"web"`, or the name of a file beside the experiment's file.
    pub(super) sizes: Option<Spanned<String>>,
    pub(super) max_size: Option<Spanned<SizeValue>>,
    pub(super) balanced: Option<Spanned<bool>>,
    pub(super) arrivals: Option<Spanned<Arrivals>>,
    pub(super) new_connections: Option<Spanned<bool>>,
    pub(super) flows: Option<Spanned<u32>>,
    pub(super) transport: Option<Spanned<TransportName>>,
    /// A rate, or a share of the path's rate.
    pub(super) rate: Option<Spanned<String>>,
    pub(super) size: Option<Spanned<SizeValue>>,
    pub(super) on: Option<Spanned<DurationValue>>,
    pub(super) off: Option<Spanned<DurationValue>>,
    pub(super) fps: Option<Spanned<u32>>,
}

impl TrafficTable {
    /// Returns the given keys that only some kinds of traffic have, with their positions.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        fn at<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
            value.as_ref().map(Spanned::span)
        }
        [
            ("ecn", at(&self.ecn)),
            ("rtt", at(&self.rtt)),
            ("congestion", at(&self.congestion)),
            ("window", at(&self.window)),
            ("load", at(&self.load)),
            ("connections", at(&self.connections)),
            ("sizes", at(&self.sizes)),
            ("max_size", at(&self.max_size)),
            ("balanced", at(&self.balanced)),
            ("arrivals", at(&self.arrivals)),
            ("new_connections", at(&self.new_connections)),
            ("flows", at(&self.flows)),
            ("transport", at(&self.transport)),
            ("rate", at(&self.rate)),
            ("size", at(&self.size)),
            ("on", at(&self.on)),
            ("off", at(&self.off)),
            ("fps", at(&self.fps)),
        ]
        .into_iter()
        .filter_map(|(key, span)| Some((key, span?)))
    }
}

impl KindName {
    /// Returns the kind's name and those keys of [`TrafficTable::given`] that it has.
    pub(super) const fn keys(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Requests => (
                "requests",
                &[
                    "load",
                    "connections",
                    "sizes",
                    "max_size",
                    "balanced",
                    "arrivals",
                    "new_connections",
                    "congestion",
                    "window",
                    "ecn",
                ],
            ),
            Self::Bulk => ("bulk", &["flows", "transport", "congestion", "window", "ecn", "rtt"]),
            Self::UdpRr => ("udp_rr", &["flows"]),
            Self::Cbr => ("cbr", &["rate", "size", "ecn"]),
            Self::OnOff => ("on_off", &["rate", "size", "on", "off", "ecn"]),
            Self::Video => ("video", &["rate", "fps", "ecn"]),
        }
    }
}
