mod kind;

use core::fmt;

use forebay_units::{Bytes, Nanos, Rate};

use crate::event::Phase;
use crate::pass_through::PassThroughPolicy;

pub use kind::ControllerKind;

/// What a rate controller sees at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Now.
    pub now: Nanos,

    /// The round-trip time of the empty path.
    pub min_rtt: Nanos,
    /// How long ago a sample last was as good as the minimum: the path was seen empty.
    pub min_rtt_age: Nanos,
    /// The latest round-trip time.
    pub rtt: Nanos,
    /// The standing round-trip time: the smallest of the last half round trip.
    pub standing_rtt: Nanos,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Nanos,
    /// By how much round-trip times exceed the standing one on average: bursts and jitter.
    pub rtt_spread: Nanos,

    /// S, over about a round trip.
    pub send_rate: Rate,
    /// R, over about a round trip.
    pub receive_rate: Rate,
    /// R while every sample waited at the bottleneck: the rate at which it serves this bundle.
    /// `None` if the newest samples saw no queue.
    pub busy_rate: Option<Rate>,
    /// The same, as if it had been so for a smoothed round-trip time at least: a rate that the
    /// bottleneck has, and not how fast packets came that something had held up.
    pub sustained_rate: Option<Rate>,
    /// The highest rate between two successive samples of the last round trips of which the second
    /// waited at the bottleneck: what a train of packets shows of its rate, even where the bundle
    /// does not fill it. `None` if none waited.
    pub train_rate: Option<Rate>,
    /// The share of packets lost over about a round trip, 0 to 1; zero where too few tell.
    pub loss: f64,

    /// Samples taken since the start.
    pub samples: u64,
    /// How long ago the newest sample came.
    pub sample_age: Nanos,
    /// How far samples lie apart.
    pub sample_interval: Nanos,
    /// How long ago the oldest boundary packet was sent that still awaits its answer; zero if none
    /// does.
    pub awaited_for: Nanos,

    /// Bytes sent after the boundary packet of the newest sample.
    pub unacknowledged: Bytes,
    /// Bytes sent within the last minimum RTT: they cannot have been answered yet.
    pub just_sent: Bytes,
    /// The most that was sent within a minimum RTT, over the last round trips.
    pub peak_sent: Bytes,
    /// Bytes waiting in the bundle's own queue.
    pub backlog: Bytes,
    /// For how long that queue has not been empty: what was sent since then went at the rate that
    /// was set.
    pub limited_for: Nanos,
    /// The mean length of the bundle's packets.
    pub packet: Bytes,
}

impl Measurement {
    /// The queueing delay at the bottleneck: the standing above the minimum round-trip time.
    pub fn queueing_delay(&self) -> Nanos {
        self.standing_rtt.saturating_sub(self.min_rtt)
    }
}

/// Sets a bundle's rate, every tick.
pub trait RateController: fmt::Debug + Send {
    /// Its name, for status and logs.
    fn name(&self) -> &'static str;

    /// The rate to send at until the next tick.
    fn on_tick(&mut self, m: &Measurement) -> Rate;

    /// Begins anew where the path's rate is not known: `rate` was received, but the traffic did not
    /// fill the path.
    fn start(&mut self, rate: Rate, m: &Measurement);

    /// Begins anew from the rate that the path was just seen to serve.
    fn resume(&mut self, rate: Rate, m: &Measurement);

    /// Why the rate is what it is.
    fn phase(&self) -> Phase;

    /// The queueing delay that it aims for at rate `rate` and packet length `packet`.
    fn target_delay(&self, rate: Rate, packet: Bytes) -> Nanos;

    /// The queueing delay from which on it cuts its rate for long enough to tell a queue from a path
    /// that became longer: twice its target, unless it knows better.
    fn cut_threshold(&self, rate: Rate, packet: Bytes) -> Nanos {
        self.target_delay(rate, packet) * 2
    }

    /// How the bundle's flows compete beside elastic traffic: with a short queue at the sendbox, as
    /// Bundler's, unless it says otherwise.
    fn pass_through_policy(&self) -> PassThroughPolicy {
        PassThroughPolicy::ShortQueue
    }
}

/// A measurement of a quiet path, to be changed as a test needs it: 50 ms, 96 Mbit/s, packets of
/// 1500 bytes, all that fills the path in flight, a sample every 10 ms.
#[cfg(test)]
pub(crate) fn quiet() -> Measurement {
    let rtt = Nanos::from_millis(50);
    let rate = Rate::from_mbps(96);
    Measurement {
        now: Nanos::from_secs(10),
        min_rtt: rtt,
        min_rtt_age: Nanos::ZERO,
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
