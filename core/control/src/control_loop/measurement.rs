//! Handling of samples, and the measurement that each tick is based on.

use forebay_units::{Bytes, Nanos};

use super::ControlLoop;
use crate::controller::Measurement;
use crate::cross::BoundarySample;
use crate::epoch::EpochInput;
use crate::event::{Event, ImpossibleClaim, MinRttReason};
use crate::excess::ExcessReceived;
use crate::feedback::Feedback;
use crate::marks::Mark;

impl ControlLoop {
    /// Takes in a valid sample of round-trip time `rtt`.
    pub(super) fn on_sample(&mut self, now: Nanos, rtt: Nanos, mark: &Mark, feedback: &Feedback) {
        self.accepted += 1;
        self.samples = self.samples.saturating_add(1);
        let smoothed = self.estimator.smoothed().unwrap_or(rtt);
        let before = self.min_rtt.get();
        // Elastic cross traffic keeps the bottleneck's queue full, which hides the empty path.
        self.min_rtt.hold(self.cross.as_ref().is_some_and(|cross| cross.keeps_old_estimates(now)));
        self.min_rtt.on_sample(now, rtt, smoothed, self.tolerance());
        let min = self.min_rtt.get().unwrap_or(rtt);
        let expired = before.is_some_and(|b| min > b);
        let reason = if expired { MinRttReason::Expired } else { MinRttReason::Smaller };
        self.log.min_rtt(min, reason);
        let queued = rtt.saturating_sub(min) > self.config.noise;
        self.estimator.set_queued(queued);
        if let Some(ExcessReceived { sent, received, lasted }) =
            self.estimator.excess(mark, feedback)
        {
            self.log.push(Event::ExcessReceived { sent, received, lasted });
        }
        let sample = BoundarySample {
            sent_at: mark.time,
            sent: mark.bytes,
            received_at: feedback.received_at,
            received: feedback.bytes,
            others: feedback.others,
            queued,
        };
        if let Some(guard) = &mut self.guard {
            guard.on_packets(mark.time, mark.packets, feedback.packets);
            guard.on_sample(sample, min);
        }
        if let Some(cross) = &mut self.cross {
            cross.on_boundary_sample(sample, feedback.fingerprint);
        }
    }

    /// Returns how far above the minimum RTT a sample may lie and still count as the minimum: the
    /// noise, and the transmission time of a packet at the bottleneck, since short packets take
    /// less.
    fn tolerance(&self) -> Nanos {
        let packet = self
            .estimator
            .rates()
            .map_or(Nanos::ZERO, |r| r.receive.time_for(self.traffic.mean_packet()));
        let eighth = self.min_rtt.get().unwrap_or_default() / 8;
        self.config.noise.saturating_add(packet.min(eighth))
    }

    /// Returns the minimum RTT by which the watchdog expects feedback. The queue may be far longer
    /// than a remembered minimum, and then few packets are marked.
    pub(super) fn awaited_rtt(&self) -> Option<Nanos> {
        let queue = self.estimator.smoothed().filter(|_| self.min_rtt.is_unconfirmed());
        self.min_rtt.get().max(queue.map(|rtt| rtt / 8))
    }

    /// Counts and logs feedback that makes an impossible claim.
    pub(super) fn on_impossible(&mut self, now: Nanos, claim: ImpossibleClaim) {
        self.counters.impossible += 1;
        self.watchdog.on_useless();
        self.log.impossible(now, claim);
    }

    /// Adapts the epoch size to the traffic and the path.
    pub(super) fn size_epoch(&mut self, now: Nanos) {
        // In a queue of seconds, epochs of a short path would need more marks than there are.
        let sampled = self.estimator.smoothed().is_some() || !self.min_rtt.is_unconfirmed();
        let change = self.epoch.on_tick(
            now,
            &EpochInput {
                min_rtt: self.min_rtt.get().filter(|_| sampled),
                send_rate: self.traffic.rate(),
                packet: self.traffic.mean_packet(),
                packets: self.traffic.packets(),
                is_measured: self.estimator.rates().is_some(),
            },
        );
        if let Some(c) = change {
            let (from, to, wanted, least) = (c.from, c.to, c.wanted, c.least);
            self.log.push(Event::EpochChanged { from, to, wanted, least });
        }
    }

    /// Returns what is known at this tick, or `None` before the first two samples.
    pub(super) fn measurement(&mut self, now: Nanos, backlog: Bytes) -> Option<Measurement> {
        let min_rtt = self.min_rtt.get()?;
        let smoothed_rtt = self.estimator.smoothed()?;
        let rates = self.estimator.rates()?;
        let (sample_at, mark) = self.estimator.latest()?;
        let (just_sent, peak_sent) = self.traffic.within(now, min_rtt, smoothed_rtt);
        let since = |t: Nanos| now.saturating_sub(t);
        Some(Measurement {
            now,
            min_rtt,
            min_rtt_age: self.min_rtt.age(now),
            min_rtt_remembered: self.path_known,
            rtt: self.estimator.rtt()?,
            standing_rtt: self.estimator.standing()?,
            smoothed_rtt,
            rtt_spread: self.estimator.spread(),
            send_rate: rates.send,
            receive_rate: rates.receive,
            busy_rate: self.estimator.busy_rate(),
            sustained_rate: self.estimator.sustained_rate(),
            train_rate: self.estimator.train_rate(),
            loss: self.guard.as_ref().map_or(rates.loss, |guard| guard.loss()),
            samples: self.accepted,
            sample_age: since(sample_at),
            sample_interval: self.estimator.interval().unwrap_or(smoothed_rtt),
            awaited_for: self.marks.oldest_awaited().map_or(Nanos::ZERO, since),
            unacknowledged: self.traffic.sent().saturating_sub(mark),
            just_sent,
            peak_sent,
            backlog,
            limited_for: self.traffic.limited_for(now),
            // An epoch of bare acknowledgements would give an unusable packet length.
            packet: self.traffic.mean_packet().max(Bytes(64)),
        })
    }
}
