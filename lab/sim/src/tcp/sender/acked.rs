//! The handling of acknowledgements.

use forebay_units::Nanos;

use super::super::congestion::Sample;
use super::super::receiver::EcnMode;
use super::super::segment::Segment;
use super::super::{MSS, TICK};
use super::sacks::AckSummary;
use super::{Sender, State};

impl Sender {
    /// Returns whether an acknowledgement contains nothing new. An end that only receives sees this
    /// with all data.
    #[inline]
    pub(crate) fn is_uninformative(&self, segment: &Segment) -> bool {
        self.ring.len() == 0
            && segment.sack.is_empty()
            && segment.ack + u64::from(segment.window) <= self.edge
            && self.probe.end.is_none()
            && segment.marked == self.marked
    }

    /// Handles an acknowledgement, with or without data.
    pub(crate) fn on_ack(&mut self, now: Nanos, segment: &Segment) {
        let now = now.0;
        if segment.ack > self.next || (segment.ack < self.una && segment.sack.is_empty()) {
            return;
        }
        // The SACK blocks of an old acknowledgement are still valid.
        let ack = segment.ack.max(self.una);
        self.edge = self.edge.max(segment.ack + u64::from(segment.window));
        self.buffer.on_ack(u64::from(segment.window));
        let prior_una = self.una;
        let (had_out, had_sacked) = (self.ring.len() > 0, self.sacked > 0);
        let prior_in_flight = self.in_flight();
        let mut summary =
            AckSummary { prior_in_flight, advanced: ack > self.una, ..AckSummary::default() };
        self.rack.advanced = false;
        if summary.advanced {
            self.timeouts_in_row = 0;
        }
        let highest = self.highest;
        self.take_sacks(now, segment, &mut summary);
        self.take_sequence(now, ack, highest, &mut summary);
        summary.marked = self.take_marks(segment, summary.newly);
        let runt = summary.in_sequence == 1 && !had_sacked && ack - prior_una < MSS;
        summary.delayed = runt && self.ring.len() == 0;
        summary.rtt = self.measure(now, segment, &summary);
        // Also with nothing in flight, since the answer to a needless probe comes then.
        self.on_probe_acked(ack, &summary);
        if !had_out {
            if summary.duplicate {
                self.alert(now, segment, &mut summary);
            }
            return;
        }
        let delivery = &mut self.delivery;
        if delivery.app_limited > 0 && delivery.delivered > delivery.app_limited {
            delivery.app_limited = 0;
        }
        let echo = segment.ece && self.ecn != EcnMode::Counted;
        let calm = self.state == State::Open && summary.in_sequence > 0;
        let armed = if calm && !summary.sacked && !summary.duplicate && !echo {
            false
        } else {
            self.alert(now, segment, &mut summary)
        };
        if !armed && self.restarts_timer(&summary) {
            self.restart_timer(Nanos(now), true);
        }
        self.adapt_window(now, &summary);
    }

    /// Returns how many of the acknowledged segments the peer reports as marked.
    fn take_marks(&mut self, segment: &Segment, newly: u32) -> u32 {
        match self.ecn {
            EcnMode::Off => 0,
            EcnMode::Classic | EcnMode::Exact { .. } => {
                if segment.ece {
                    newly
                } else {
                    0
                }
            }
            EcnMode::Counted => {
                let new = segment.marked.wrapping_sub(self.marked);
                // A reordered acknowledgement has an older counter.
                if new > u32::MAX / 2 {
                    return 0;
                }
                self.marked = segment.marked;
                new
            }
        }
    }

    /// Measures round-trip times of segments sent only once (Karn's rule) or by the timestamp.
    /// Returns that of the latest segment, for congestion control.
    fn measure(&mut self, now: u64, segment: &Segment, summary: &AckSummary) -> Option<u64> {
        let clean = !summary.retransmission_acked;
        let first = summary.first_sent.filter(|_| clean);
        let latest = summary.last_sacked.or(summary.last_sent.filter(|_| clean));
        let mut rtt = latest.map(|sent| now - sent);
        let mut taken = first.or(summary.first_sacked).map(|sent| now - sent);
        if taken.is_none() && summary.in_sequence > 0 && segment.echo > 0 {
            taken = Some((now / TICK - segment.echo / TICK).max(1) * TICK);
            rtt = taken;
        }
        if let Some(taken) = taken {
            self.rtt.sample(taken, self.una, self.next);
            self.backoff = 0;
        }
        if let Some(rtt) = rtt {
            self.rtt.note_min(rtt);
            self.round_trip = Some(rtt);
        }
        rtt
    }

    fn sample(&self, now: u64, summary: &AckSummary) -> Sample {
        let delivered = self.delivery.delivered;
        let mut sample = Sample {
            delivered,
            newly: summary.newly,
            rtt: summary.rtt,
            delayed: summary.delayed,
            prior_in_flight: summary.prior_in_flight,
            in_flight: self.in_flight(),
            marked: summary.marked,
            losses: summary.losses,
            all_losses: self.losses,
            ..Sample::default()
        };
        if let Some(latest) = summary.latest {
            let sending = latest.time - latest.first_time;
            let receiving = now - latest.delivered_time;
            sample.prior_delivered = latest.delivered;
            sample.segments = delivered - latest.delivered;
            sample.app_limited = latest.app_limited;
            let interval = sending.max(receiving);
            // An interval shorter than the minimum round-trip time is not valid.
            if self.rtt.min().is_none_or(|min| interval >= min) {
                sample.interval = interval;
            }
        }
        sample
    }

    fn adapt_window(&mut self, now: u64, summary: &AckSummary) {
        let c = self.connection(now);
        if let (Some(rtt), true) = (summary.rtt, summary.in_sequence > 0 || summary.sacked) {
            self.control.on_measured(&mut self.window, &c, rtt);
        }
        if self.control.takes_samples() {
            let sample = self.sample(now, summary);
            self.control.on_ack(&mut self.window, &c, &sample);
        }
        if self.control.sets_own_window() {
            if self.control.probes_rtt() {
                // The probe limits the flight, so its rate does not indicate the bandwidth.
                self.delivery.app_limited =
                    (self.delivery.delivered + u64::from(self.in_flight())).max(1);
            }
            return;
        }
        if matches!(self.state, State::Reducing | State::Recovery) {
            self.reduce(summary);
        } else {
            let may =
                if self.rack.reordering { summary.newly > 0 } else { summary.in_sequence > 0 };
            if may {
                self.control.grow(&mut self.window, &c, summary.newly);
            }
        }
    }
}
