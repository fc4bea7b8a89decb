//! The JSON document, schema `forebay-demo/1`. `docs/demo-json.md` describes it to its readers; the
//! two change together, and any change that could break a reader changes the schema's number.

use serde::{Deserialize, Serialize};

use super::{Arm, Verdict};
use crate::analysis::{ByClass, Conservation, Delay, Slowdown, Summary};

/// The schema's name and version.
pub const SCHEMA: &str = "forebay-demo/1";

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// What ran it: `netns`, `uml` or `sim`.
    pub engine: String,
    /// The seed, the same in all arms.
    pub seed: u64,
    /// Length of the measured interval, in seconds.
    pub duration_s: f64,
    /// The bottleneck's rate, in Mbit/s.
    pub rate_mbps: f64,
    /// Round-trip time of the empty path, in milliseconds.
    pub rtt_ms: f64,
    /// The load that the request workload was configured for, in Mbit/s.
    pub offered_mbps: f64,
    /// The load that this seed's requests asked for in the measured interval (status quo's), in
    /// Mbit/s.
    pub realised_mbps: f64,
    /// The figures by arm.
    pub arms: Arms<ArmFigures>,
    /// The comparison with the status quo.
    pub verdict: Verdict,
}

/// One thing for each arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arms<T> {
    /// [`Arm::StatusQuo`]'s.
    pub status_quo: T,
    /// [`Arm::InNetworkSfq`]'s.
    pub in_network_sfq: T,
    /// [`Arm::ForebaySfq`]'s.
    pub forebay_sfq: T,
    /// [`Arm::ForebayFifo`]'s.
    pub forebay_fifo: T,
}

impl<T> Arms<T> {
    /// `arm`'s.
    pub fn get(&self, arm: Arm) -> &T {
        match arm {
            Arm::StatusQuo => &self.status_quo,
            Arm::InNetworkSfq => &self.in_network_sfq,
            Arm::ForebaySfq => &self.forebay_sfq,
            Arm::ForebayFifo => &self.forebay_fifo,
        }
    }

    /// Applies `f` to each.
    pub fn map<U>(&self, f: impl Fn(&T) -> U) -> Arms<U> {
        Arms {
            status_quo: f(&self.status_quo),
            in_network_sfq: f(&self.in_network_sfq),
            forebay_sfq: f(&self.forebay_sfq),
            forebay_fifo: f(&self.forebay_fifo),
        }
    }

    /// Asks `f` for each arm's.
    ///
    /// # Errors
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
    /// Payload that reached receivers in the measured interval, in Mbit/s.
    pub goodput_mbps: f64,
    /// Delay in the bottleneck's queue, in milliseconds.
    pub bottleneck_queue_ms: Percentiles,
    /// Delay in the sendbox's queues, in milliseconds; zero where the sendbox only forwards.
    pub sendbox_queue_ms: Percentiles,
    /// Slowdown of requests by class of size: completion time over that on the empty path.
    pub slowdown: ByClass<Slowdown>,
    /// How many requests.
    pub requests: RequestCounts,
    /// Packets that did not get through.
    pub drops: Drops,
    /// Whether every frame is accounted for.
    pub conservation: Conservation,
}

/// A queue's delay, packets weighted equally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Mean.
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
    /// All of them.
    pub offered: u64,
    /// Those answered to the last byte before the run ended.
    pub completed: u64,
}

/// Packets dropped by a queueing policy or lost, over the whole run, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// At the bottleneck.
    pub bottleneck: u64,
    /// At the sendbox.
    pub sendbox: u64,
    /// At any other hop.
    pub other: u64,
}

impl ArmFigures {
    /// Of the run that `s` sums up, whose bottleneck queue's delay is `bottleneck`.
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
