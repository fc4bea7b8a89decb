//! The JSON document, schema `forebay-demo/1`. `docs/demo-json.md` describes it and changes
//! together with it. A change that could break a reader changes the schema's number.

use serde::{Deserialize, Serialize};

use super::{Arm, Verdict};
use crate::analysis::{ByClass, Conservation, Delay, Slowdown, Summary};

/// The name and version of the schema.
pub const SCHEMA: &str = "forebay-demo/1";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The schema: [`SCHEMA`].
    pub schema: String,
    /// The engine: `netns`, `uml` or `sim`.
    pub engine: String,
    /// The seed, the same in all arms.
    pub seed: u64,
    /// The length of the measured interval in seconds.
    pub duration_s: f64,
    /// The bottleneck's rate in Mbit/s.
    pub rate_mbps: f64,
    /// The round-trip time of the empty path in milliseconds.
    pub rtt_ms: f64,
    /// The configured load of the request workload in Mbit/s.
    pub offered_mbps: f64,
    /// The load that this seed's requests asked for in the measured interval (of the status quo),
    /// in Mbit/s.
    pub realised_mbps: f64,
    /// The figures by arm.
    pub arms: Arms<ArmFigures>,
    /// The comparison with the status quo.
    pub verdict: Verdict,
}

/// A value for each arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arms<T> {
    /// The value of [`Arm::StatusQuo`].
    pub status_quo: T,
    /// The value of [`Arm::InNetworkSfq`].
    pub in_network_sfq: T,
    /// The value of [`Arm::ForebaySfq`].
    pub forebay_sfq: T,
    /// The value of [`Arm::ForebayFifo`].
    pub forebay_fifo: T,
}

impl<T> Arms<T> {
    /// Returns the value of `arm`.
    pub fn get(&self, arm: Arm) -> &T {
        match arm {
            Arm::StatusQuo => &self.status_quo,
            Arm::InNetworkSfq => &self.in_network_sfq,
            Arm::ForebaySfq => &self.forebay_sfq,
            Arm::ForebayFifo => &self.forebay_fifo,
        }
    }

    /// Applies `f` to each value.
    pub fn map<U>(&self, f: impl Fn(&T) -> U) -> Arms<U> {
        Arms {
            status_quo: f(&self.status_quo),
            in_network_sfq: f(&self.in_network_sfq),
            forebay_sfq: f(&self.forebay_sfq),
            forebay_fifo: f(&self.forebay_fifo),
        }
    }

    /// Collects the results of `f` for each arm.
    ///
    /// # Errors
    ///
    /// The first that `f` returns.
    pub fn try_from_fn<E>(mut f: impl FnMut(Arm) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            status_quo: f(Arm::StatusQuo)?,
            in_network_sfq: f(Arm::InNetworkSfq)?,
            forebay_sfq: f(Arm::ForebaySfq)?,
            forebay_fifo: f(Arm::ForebayFifo)?,
        })
    }
}

/// The figures of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmFigures {
    /// The payload that reached receivers in the measured interval, in Mbit/s.
    pub goodput_mbps: f64,
    /// The delay in the bottleneck's queue in milliseconds.
    pub bottleneck_queue_ms: Percentiles,
    /// The delay in the sendbox's queues in milliseconds; zero if the sendbox only forwards.
    pub sendbox_queue_ms: Percentiles,
    /// The slowdown of requests by size class: completion time over that on the empty path.
    pub slowdown: ByClass<Slowdown>,
    /// The numbers of requests.
    pub requests: RequestCounts,
    /// The numbers of lost packets.
    pub drops: Drops,
    /// Whether every frame is accounted for.
    pub conservation: Conservation,
}

/// The delay of a queue; each packet has the same weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median delay.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The mean over all packets.
    pub mean: f64,
}

impl From<Delay> for Percentiles {
    fn from(d: Delay) -> Self {
        Self { p50: d.p50, p90: d.p90, p99: d.p99, mean: d.mean }
    }
}

/// Requests that started in the measured interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// The number of requests.
    pub offered: u64,
    /// The number of requests that were answered completely before the run ended.
    pub completed: u64,
}

/// Packets dropped by a policy or lost, over the whole run including warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// Drops at the bottleneck.
    pub bottleneck: u64,
    /// Drops at the sendbox.
    pub sendbox: u64,
    /// Drops at any other hop.
    pub other: u64,
}

impl ArmFigures {
    /// Returns the figures of the run that `s` summarises; `bottleneck` is its bottleneck queue's
    /// delay.
    pub(super) fn of(s: &Summary, bottleneck: Delay) -> Self {
        let mut drops = Drops::default();
        for hop in &s.hops {
            let sum = match hop.hop.as_str() {
                "link" => &mut drops.bottleneck,
                "sendbox" => &mut drops.sendbox,
                _ => &mut drops.other,
            };
            *sum = sum.saturating_add(hop.policy_drops).saturating_add(hop.lost);
        }
        Self {
            goodput_mbps: s.goodput_mbps,
            bottleneck_queue_ms: bottleneck.into(),
            sendbox_queue_ms: s.sendbox_queue_ms.map(Percentiles::from).unwrap_or_default(),
            slowdown: s.slowdown.clone(),
            requests: RequestCounts {
                offered: s.requests.offered,
                completed: s.requests.completed,
            },
            drops,
            conservation: s.conservation.clone(),
        }
    }
}
