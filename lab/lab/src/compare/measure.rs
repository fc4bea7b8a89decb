use serde::Serialize;

use crate::analysis::Summary;

/// A measure by which two results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The payload that reached receivers, in Mbit/s.
    Throughput,
    /// The mean waiting time at the bottleneck in milliseconds.
    DelayMean,
    /// The 99th percentile of the waiting time at the bottleneck in milliseconds.
    DelayP99,
    /// The mean waiting time at the sendbox in milliseconds.
    SendboxMean,
    /// The 99th percentile of the waiting time at the sendbox in milliseconds.
    SendboxP99,
    /// The median slowdown of requests.
    SlowdownP50,
    /// The 99th percentile of the slowdown of requests.
    SlowdownP99,
    /// The median round trip of the slowest closed loop in milliseconds.
    RttP50,
    /// The 99th percentile of the round trips of the slowest closed loop in milliseconds.
    RttP99,
    /// The number of packets that queues dropped or hops lost, over the whole run.
    Drops,
    /// The number of packets that queues marked, over the whole run.
    Marks,
}

impl Measure {
    /// All measures, in their order.
    pub const ALL: [Self; 11] = [
        Self::Throughput,
        Self::DelayMean,
        Self::DelayP99,
        Self::SendboxMean,
        Self::SendboxP99,
        Self::SlowdownP50,
        Self::SlowdownP99,
        Self::RttP50,
        Self::RttP99,
        Self::Drops,
        Self::Marks,
    ];

    /// The name in bands and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::DelayMean => "delay_mean",
            Self::DelayP99 => "delay_p99",
            Self::SendboxMean => "sendbox_mean",
            Self::SendboxP99 => "sendbox_p99",
            Self::SlowdownP50 => "slowdown_p50",
            Self::SlowdownP99 => "slowdown_p99",
            Self::RttP50 => "rtt_p50",
            Self::RttP99 => "rtt_p99",
            Self::Drops => "drops",
            Self::Marks => "marks",
        }
    }

    /// The unit; empty for ratios and counts.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "Mbit/s",
            Self::DelayMean
            | Self::DelayP99
            | Self::SendboxMean
            | Self::SendboxP99
            | Self::RttP50
            | Self::RttP99 => "ms",
            Self::SlowdownP50 | Self::SlowdownP99 | Self::Drops | Self::Marks => "",
        }
    }

    /// Returns the measure of the run that `s` summarises; `None` if there was nothing to measure.
    pub fn of(self, s: &Summary) -> Option<f64> {
        let sum = |count: fn(&crate::results::HopCounters) -> u64| {
            s.hops.iter().map(count).fold(0, u64::saturating_add) as f64
        };
        match self {
            Self::Throughput => Some(s.goodput_mbps),
            Self::DelayMean => Some(s.bottleneck_queue_ms?.mean),
            Self::DelayP99 => Some(s.bottleneck_queue_ms?.p99),
            Self::SendboxMean => Some(s.sendbox_queue_ms?.mean),
            Self::SendboxP99 => Some(s.sendbox_queue_ms?.p99),
            Self::SlowdownP50 => s.slowdown.all.p50,
            Self::SlowdownP99 => s.slowdown.all.p99,
            Self::RttP50 => s.round_trips_ms.values().filter_map(|t| t.p50).reduce(f64::max),
            Self::RttP99 => s.round_trips_ms.values().filter_map(|t| t.p99).reduce(f64::max),
            // Other tools count no packets.
            Self::Drops if s.hops.is_empty() => None,
            Self::Drops => Some(sum(|h| h.policy_drops.saturating_add(h.lost))),
            // Hops that do not count marks are left out.
            Self::Marks => {
                s.hops.iter().filter_map(|h| h.marked).reduce(u64::saturating_add).map(|n| n as f64)
            }
        }
    }
}
