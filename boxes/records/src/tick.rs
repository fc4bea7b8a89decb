//! The state of a bundle's control loop, tick by tick.

use forebay_control::Snapshot;
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// The state of a bundle's control loop at one tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// The time in nanoseconds.
    pub time: u64,
    /// The name of the bundle.
    pub bundle: String,
    /// The mode: `delay control`, `pass-through` or `open`.
    pub mode: String,
    /// The rate of the bundle in bits per second; `None` without a limit.
    pub rate: Option<u64>,
    /// The latest round-trip time, in nanoseconds.
    pub rtt: Option<u64>,
    /// The minimum round-trip time, in nanoseconds.
    pub min_rtt: Option<u64>,
    /// The send rate S over about one round-trip time, in bits per second.
    pub send_rate: Option<u64>,
    /// The receive rate R over about one round-trip time, in bits per second.
    pub receive_rate: Option<u64>,
    /// The share of the bundle's pulses that cross traffic makes room for; `None` without pulses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<f64>,
    /// The response at the frequency of the pulses against that at other frequencies; `None`
    /// without pulses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<f64>,
    /// The epoch size N, in packets.
    pub epoch: u32,
    /// The bytes in the bundle's queue.
    pub backlog: u64,
    /// The feedback messages since the start that gave a sample.
    #[serde(default)]
    pub accepted: u64,
    /// The feedback messages since the start for a mark older than the newest one that was
    /// answered.
    #[serde(default)]
    pub out_of_order: u64,
}

impl Tick {
    /// Records `state` of the loop of `bundle`, whose queue holds `backlog`.
    pub fn new(now: Nanos, bundle: &str, state: &Snapshot, backlog: Bytes) -> Self {
        Self {
            time: now.0,
            bundle: bundle.to_owned(),
            mode: state.mode.to_string(),
            rate: state.rate.map(Rate::as_bps),
            rtt: state.rtt.map(|t| t.0),
            min_rtt: state.min_rtt.map(|t| t.0),
            send_rate: state.send_rate.map(Rate::as_bps),
            receive_rate: state.receive_rate.map(Rate::as_bps),
            response: state.elasticity.map(|e| e.response),
            contrast: state.elasticity.map(|e| e.contrast),
            epoch: state.epoch,
            backlog: backlog.0,
            accepted: state.counters.accepted,
            out_of_order: state.counters.out_of_order,
        }
    }
}
