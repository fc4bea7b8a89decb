use forebay_units::{Bytes, Nanos, Rate};

use crate::config::ForebayConfig;
use crate::controller::Measurement;

/// The largest multiple of the configured noise that the spread of round-trip times can raise it
/// to. A larger spread is not noise but traffic.
const NOISE_RANGE: f64 = 4.0;

/// A measurement in seconds and bytes, with the values that the control law derives from it.
#[derive(Debug)]
pub(super) struct TickInput {
    pub(super) now: Nanos,
    /// When the packet of the newest sample was sent.
    pub(super) sampled: Nanos,
    /// The time since the last tick.
    pub(super) dt: f64,
    /// The minimum RTT.
    pub(super) base: f64,
    /// The standing RTT.
    pub(super) rtt: f64,
    /// The smoothed RTT.
    pub(super) smoothed: f64,
    /// A round: the time from a change of the rate to the sample that shows it.
    pub(super) round: f64,
    /// The standing RTT less the minimum RTT.
    pub(super) delay: f64,
    /// The part of that delay that is not a queue.
    pub(super) floor: f64,
    /// The queueing delay by the standing RTT, without the floor.
    pub(super) queue: f64,
    /// The queueing delay by the latest RTT, without the floor.
    pub(super) latest: f64,
    /// The receive rate over a round trip.
    pub(super) receive: f64,
    /// The receive rate while the bottleneck was busy.
    pub(super) busy: f64,
    /// The highest rate of a train of packets, zero for none.
    pub(super) train: f64,
    pub(super) loss: f64,
    /// The mean packet length.
    pub(super) packet: f64,
    /// The bytes to keep in the queue.
    pub(super) packets: f64,
    /// The longest delay in seconds that can prove to be no queue.
    pub(super) longest_noise: f64,
    /// The delay that counts as noise.
    pub(super) noise: f64,
    /// The largest number of bytes sent in a minimum RTT recently.
    pub(super) used: f64,
    /// Whether packets wait at the sendbox.
    pub(super) backlogged: bool,
    /// The bytes that wait at the sendbox.
    pub(super) waiting: f64,
    /// How long the rate has limited the bundle.
    pub(super) limited_for: f64,
    /// Whether the newest sample is younger than a round.
    pub(super) informed: bool,
    /// Whether the newest sample is young enough for growth.
    pub(super) fresh: bool,
    /// How long the next sample is overdue.
    pub(super) overdue: f64,
    /// The time since a packet saw the path empty.
    pub(super) min_rtt_age: f64,
    /// Whether the minimum RTT was known before the first sample.
    pub(super) path_known: bool,
    unacknowledged: f64,
    just_sent: f64,
    sample_age: f64,
}

impl TickInput {
    /// Converts `m`, where `floor` is the delay in seconds that is not a queue.
    pub(super) fn new(
        m: &Measurement,
        last_tick: Nanos,
        floor: f64,
        config: &ForebayConfig,
    ) -> Self {
        let seconds = Nanos::as_secs_f64;
        let base = seconds(m.min_rtt).max(1e-4);
        let delay = seconds(m.queueing_delay());
        let rtt = seconds(m.standing_rtt);
        let interval = seconds(m.sample_interval);
        let round = rtt + interval;
        let age = seconds(m.sample_age);
        let noise = seconds(config.noise);
        let receive = m.receive_rate.as_bytes_per_sec_f64();
        let packet = m.packet.as_f64();
        // Feedback is late if it takes longer than the last did by half a path, the time between
        // samples and two ticks.
        let due = seconds(m.rtt) + interval + base / 2.0 + 0.02;
        Self {
            now: m.now,
            sampled: m.now.saturating_sub(m.sample_age).saturating_sub(m.rtt),
            dt: seconds(m.now.saturating_sub(last_tick)).min(0.1),
            base,
            rtt,
            smoothed: seconds(m.smoothed_rtt),
            round,
            delay,
            floor,
            queue: (delay - floor).max(0.0),
            latest: (seconds(m.rtt.saturating_sub(m.min_rtt)) - floor).max(0.0),
            receive,
            busy: m.busy_rate.map_or(receive, Rate::as_bytes_per_sec_f64),
            // Jitter causes trains too, and their rate is meaningless.
            train: m.train_rate.filter(|_| floor <= noise).map_or(0.0, Rate::as_bytes_per_sec_f64),
            loss: m.loss,
            packet,
            packets: packet * config.queue_packets,
            longest_noise: seconds(config.longest_noise),
            noise: seconds(m.rtt_spread).clamp(noise, noise * NOISE_RANGE),
            used: m.peak_sent.as_f64(),
            backlogged: m.backlog > Bytes::ZERO,
            waiting: m.backlog.as_f64(),
            limited_for: seconds(m.limited_for),
            informed: age < round,
            fresh: age <= (2.0 * interval).max(rtt / 4.0),
            overdue: (seconds(m.awaited_for) - due).max(0.0),
            min_rtt_age: seconds(m.min_rtt_age),
            path_known: m.min_rtt_remembered,
            unacknowledged: m.unacknowledged.as_f64(),
            just_sent: m.just_sent.as_f64(),
            sample_age: age,
        }
    }

    /// Returns the bytes to keep in flight at `rate` beyond what fills the empty path: the
    /// configured packets, and the bytes that noise and floor hold.
    pub(super) fn target(&self, rate: f64) -> f64 {
        self.packets + rate * (self.noise + self.floor)
    }

    /// Returns the target of the queueing delay in seconds.
    pub(super) fn target_delay(&self, rate: f64) -> f64 {
        self.packets / rate.max(1.0) + self.noise
    }

    /// Returns the bytes in flight now, if the bottleneck serves `capacity`.
    ///
    /// These are the bytes sent after the newest sample's packet less what was served since, and at
    /// least those sent within the minimum RTT. Once a sample is overdue no more service is
    /// assumed, as with an ACK clock.
    pub(super) fn in_flight(&self, capacity: f64) -> f64 {
        let serving = (self.sample_age - self.overdue).max(0.0);
        (self.unacknowledged - capacity * serving).max(self.just_sent)
    }

    /// Returns the length of a tick as a share of `time`, at most 1.
    pub(super) fn share_of(&self, time: f64) -> f64 {
        (self.dt / time).min(1.0)
    }

    /// Returns the time since `since`, zero for `None`.
    pub(super) fn elapsed_since(&self, since: Option<Nanos>) -> f64 {
        since.map_or(0.0, |t| self.now.saturating_sub(t).as_secs_f64())
    }

    /// Returns the time at which `rounds` rounds have passed.
    pub(super) fn after_rounds(&self, rounds: f64) -> Nanos {
        self.now.saturating_add(Nanos::from_secs_f64(rounds * self.round))
    }
}
