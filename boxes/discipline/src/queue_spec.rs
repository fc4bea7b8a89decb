//! The queue of a bottleneck, with every setting.

use forebay_config::Limit;
use forebay_queue::{Limit as QueueLimit, Packet, Qdisc};
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::limit::{FRAME, LimitOnPath};
use crate::settings::{BaseAqm, Burst, Profile};
use crate::specification::{BuildError, Terms};
use crate::{Discipline, Kind, Settings};

/// The packet length with which a limit in bytes is converted to packets: a quarter of 1536 B,
/// which holds a full frame. A pool of as many buffers has room for full frames and short packets.
const MEAN_PACKET: Bytes = Bytes(384);

/// A queue of this project's at a bottleneck: the same in every engine that runs its code.
///
/// Its JSON has every setting, so that the process which builds the queue needs to know neither the
/// path nor the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct QueueSpec(Discipline);

impl QueueSpec {
    /// The queue that `discipline` is on a path where its limit is `limit`; `None` if this project
    /// has no such queue for a bottleneck.
    pub fn new(discipline: &Discipline, limit: LimitOnPath) -> Option<Self> {
        let kind = discipline.kind;
        if kind.is_kernel_only() || kind.bottleneck_keys().is_none() {
            return None;
        }
        Some(Self(Discipline { kind, settings: discipline.on_path(limit) }))
    }

    /// The queue of `kind` with the discipline's defaults that holds `packets` packets, or full
    /// frames where the discipline counts bytes; `None` as for [`QueueSpec::new`].
    pub fn of_packets(kind: Kind, packets: u32) -> Option<Self> {
        let packets = u64::from(packets);
        let bytes = Bytes(packets.saturating_mul(FRAME.0));
        let spec = Self::new(&kind.into(), LimitOnPath { bytes, packets })?;
        let Discipline { kind, settings } = spec.0;
        let limit = if kind == Kind::Fifo { Some(Limit::Packets(packets)) } else { settings.limit };
        Some(Self(Discipline { kind, settings: Settings { limit, ..settings } }))
    }

    /// The number of packets that may wait; for a limit in bytes, that of packets of 384 B.
    pub fn packets(&self) -> u64 {
        match self.0.settings.limit {
            Some(Limit::Bytes(bytes)) => bytes.0 / MEAN_PACKET.0,
            Some(Limit::Packets(packets)) => packets,
            _ => self.0.capacity(),
        }
    }

    /// Builds the queue, with the discipline's default seed.
    ///
    /// # Errors
    /// If a setting is out of the discipline's range.
    pub fn build<P: Packet + 'static>(&self) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let terms = Terms { seed: None, most_packets: QueueLimit::MAX_PACKETS };
        self.0.kind.build(&self.0.settings, terms)
    }
}

/// A [`QueueSpec`] as it is written: times in nanoseconds, and no key that the kind does not have.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit_packets: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interval_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tupdate_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    perturb_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ecn: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    l4s_threshold_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<BaseAqm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_threshold_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coupling: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    l4s_burst: Option<WrittenBurst>,
}

/// A limit of bursts as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBurst {
    rate_bps: u64,
    burst_ns: u64,
}

impl From<Burst> for WrittenBurst {
    fn from(Burst { time, rate }: Burst) -> Self {
        // The rate of a bottleneck is always known.
        Self { rate_bps: rate.unwrap_or_default().as_bps(), burst_ns: time.0 }
    }
}

impl From<WrittenBurst> for Burst {
    fn from(written: WrittenBurst) -> Self {
        Self { rate: Some(Rate::from_bps(written.rate_bps)), time: Nanos(written.burst_ns) }
    }
}

impl From<QueueSpec> for Written {
    fn from(QueueSpec(Discipline { kind, settings }): QueueSpec) -> Self {
        let ns = |time: Option<Nanos>| time.map(|t| t.0);
        let (limit_bytes, limit_packets) = match settings.limit {
            Some(Limit::Bytes(bytes)) => (Some(bytes.0), None),
            // A scenario's limits fit: at most a million packets.
            Some(Limit::Packets(n)) => (None, Some(u32::try_from(n).unwrap_or(u32::MAX))),
            _ => (None, None),
        };
        Self {
            kind,
            limit_bytes,
            limit_packets,
            target_ns: ns(settings.target),
            interval_ns: ns(settings.interval),
            tupdate_ns: ns(settings.tupdate),
            perturb_ns: ns(settings.perturb),
            ecn: settings.ecn,
            profile: settings.profile,
            l4s_threshold_ns: ns(settings.l4s_threshold),
            base: settings.base,
            range_ns: ns(settings.range),
            min_threshold_ns: ns(settings.min_threshold),
            coupling: settings.coupling,
            l4s_burst: settings.l4s_burst.map(WrittenBurst::from),
        }
    }
}

impl From<Written> for QueueSpec {
    fn from(written: Written) -> Self {
        let bytes = written.limit_bytes.map(|n| Limit::Bytes(Bytes(n)));
        let packets = written.limit_packets.map(|n| Limit::Packets(u64::from(n)));
        let settings = Settings {
            limit: bytes.or(packets),
            target: written.target_ns.map(Nanos),
            interval: written.interval_ns.map(Nanos),
            tupdate: written.tupdate_ns.map(Nanos),
            perturb: written.perturb_ns.map(Nanos),
            ecn: written.ecn,
            profile: written.profile,
            l4s_threshold: written.l4s_threshold_ns.map(Nanos),
            base: written.base,
            range: written.range_ns.map(Nanos),
            min_threshold: written.min_threshold_ns.map(Nanos),
            coupling: written.coupling,
            l4s_burst: written.l4s_burst.map(Burst::from),
            ..Settings::default()
        };
        Self(Discipline { kind: written.kind, settings })
    }
}
