mod kind;

use core::fmt;

use forebay_units::{Bytes, Nanos, Rate};

use crate::event::Phase;
use crate::pass_through::PassThroughPolicy;

pub use kind::ControllerKind;

/// The input of a rate controller at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The time of the tick.
    pub now: Nanos,

    /// The round-trip time of the empty path.
    pub min_rtt: Nanos,
    /// The time since a sample last was as good as the minimum, which means an empty path.
    pub min_rtt_age: Nanos,
    /// Whether the minimum was known before the first sample, from an earlier process.
    pub min_rtt_remembered: bool,
    /// The latest round-trip time.
    pub rtt: Nanos,
    /// The standing round-trip time: the smallest of the last half round trip.
    pub standing_rtt: Nanos,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Nanos,
    /// The mean excess of round-trip times over the standing one, due to bursts and jitter.
    pub rtt_spread: Nanos,

    /// The send rate S over about a round trip.
    pub send_rate: Rate,
    /// The receive rate R over about a round trip.
    pub receive_rate: Rate,
    /// The receive rate while every sample waited at the bottleneck, which is the rate at which the
    /// bottleneck serves this bundle. `None` if the newest samples saw no queue.
    pub busy_rate: Option<Rate>,
    /// A lower bound of `busy_rate` that assumes the busy time lasted at least a smoothed
    /// round-trip time. This excludes the rate of packets that were held up somewhere and arrived
    /// together.
    pub sustained_rate: Option<Rate>,
    /// The highest rate between two successive samples of the last round trips that both waited at
    /// the bottleneck. Such a train of packets shows the bottleneck's rate even if the bundle does
    /// not fill it. `None` if no sample waited.
    pub train_rate: Option<Rate>,
    /// The share of packets lost over about a round trip, 0 to 1; zero with too few packets.
    pub loss: f64,

    /// The number of samples since the start.
    pub samples: u64,
    /// The age of the newest sample.
    pub sample_age: Nanos,
    /// The mean time between samples.
    pub sample_interval: Nanos,
    /// The age of the oldest boundary packet that still awaits feedback; zero if there is none.
    pub awaited_for: Nanos,

    /// Bytes sent after the boundary packet of the newest sample.
    pub unacknowledged: Bytes,
    /// Bytes sent within the last minimum RTT, for which there can be no feedback yet.
    pub just_sent: Bytes,
    /// The largest number of bytes sent within a minimum RTT, over the last round trips.
    pub peak_sent: Bytes,
    /// Bytes waiting in the bundle's own queue.
    pub backlog: Bytes,
    /// For how long the bundle's own queue has not been empty, so that the rate set is the rate
    /// sent.
    pub limited_for: Nanos,
    /// The mean length of the bundle's packets.
    pub packet: Bytes,
}

impl Measurement {
    /// Returns the queueing delay at the bottleneck: the standing less the minimum round-trip time.
    pub fn queueing_delay(&self) -> Nanos {
        self.standing_rtt.saturating_sub(self.min_rtt)
    }
}

/// A congestion control law that sets a bundle's rate at every tick.
pub trait RateController: fmt::Debug + Send {
    /// Returns the name for status and logs.
    fn name(&self) -> &'static str;

    /// Returns the rate to send at until the next tick.
    fn on_tick(&mut self, m: &Measurement) -> Rate;

    /// Starts anew where the path's rate is unknown: the receive rate was `rate`, but the traffic
    /// did not fill the path.
    fn start(&mut self, rate: Rate, m: &Measurement);

    /// Starts anew from `rate`, at which the path has just served the bundle.
    fn resume(&mut self, rate: Rate, m: &Measurement);

    /// Returns the round-trip time of the empty path if the last tick showed that it is longer than
    /// the minimum RTT. The default is never.
    fn take_longer_path(&mut self) -> Option<Nanos> {
        None
    }

    /// Returns the reason for the present rate.
    fn phase(&self) -> Phase;

    /// Returns the queueing delay that the law aims for at this rate and packet length.
    fn target_delay(&self, rate: Rate, packet: Bytes) -> Nanos;

    /// Returns the queueing delay above which the law cuts its rate long enough to distinguish a
    /// queue from a path that became longer. The default is twice the target.
    fn cut_threshold(&self, rate: Rate, packet: Bytes) -> Nanos {
        self.target_delay(rate, packet) * 2
    }

    /// Returns how the bundle's flows are limited beside elastic traffic. The default is a short
    /// queue at the sendbox, as in Bundler.
    fn pass_through_policy(&self) -> PassThroughPolicy {
        PassThroughPolicy::ShortQueue
    }
}

/// Returns a measurement of a quiet path for tests to modify: 50 ms, 96 Mbit/s, packets of 1500
/// bytes, a full path in flight, a sample every 10 ms.
#[cfg(test)]
pub(crate) fn quiet() -> Measurement {
    let rtt = Nanos::from_millis(50);
    let rate = Rate::from_mbps(96);
    Measurement {
        now: Nanos::from_secs(10),
        min_rtt: rtt,
        min_rtt_age: Nanos::ZERO,
        min_rtt_remembered: false,
        rtt,
        standing_rtt: rtt,
        smoothed_rtt: rtt,
        rtt_spread: Nanos::ZERO,
        send_rate: rate,
        receive_rate: rate,
        busy_rate: None,
        sustained_rate: None,
        train_rate: None,
        loss: 0.0,
        samples: 1,
        sample_age: Nanos::ZERO,
        sample_interval: Nanos::from_millis(10),
        awaited_for: Nanos::ZERO,
        unacknowledged: Bytes(600_000),
        just_sent: Bytes(600_000),
        peak_sent: Bytes(600_000),
        backlog: Bytes(100_000),
        limited_for: Nanos::from_secs(1),
        packet: Bytes(1500),
    }
}
