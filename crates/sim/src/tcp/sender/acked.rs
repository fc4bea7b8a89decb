//! What an acknowledgement changes.

use forebay_units::Nanos;

use super::super::congestion::Sample;
use super::super::receiver::EcnMode;
use super::super::segment::Segment;
use super::super::{MSS, TICK};
use super::sacks::News;
use super::{Sender, State};

impl Sender {
    /// Whether an acknowledgement says nothing at all: what an end that only receives sees with all data.
    #[inline]
    pub(crate) fn is_old_news(&self, segment: &Segment) -> bool {
        self.ring.len() == 0
            && segment.sack.is_empty()
            && segment.ack + u64::from(segment.window) <= self.edge
            && self.probe.end.is_none()
            && segment.marked == self.marked
    }

    /// An acknowledgement came, with data or without.
    pub(crate) fn on_ack(&mut self, now: Nanos, segment: &Segment) {
        let now = now.0;
        if segment.ack > self.next || (segment.ack < self.una && segment.sack.is_empty()) {
            return;
        }
        // What an old one says of gaps is still true.
        let ack = segment.ack.max(self.una);
        self.edge = self.edge.max(segment.ack + u64::from(segment.window));
        self.buffer.on_ack(u64::from(segment.window));
        let prior_una = self.una;
        let (had_out, had_sacked) = (self.ring.len() > 0, self.sacked > 0);
        let prior_in_flight = self.in_flight();
        let mut news = News { prior_in_flight, advanced: ack > self.una, ..News::default() };
        self.rack.advanced = false;
        if news.advanced {
            self.silences = 0;
        }
        let highest = self.highest;
        self.take_sacks(now, segment, &mut news);
        self.take_sequence(now, ack, highest, &mut news);
        news.marked = self.take_marks(segment, news.newly);
        let runt = news.in_sequence == 1 && !had_sacked && ack - prior_una < MSS;
        news.delayed = runt && self.ring.len() == 0;
        news.rtt = self.measure(now, segment, &news);
        // Also when nothing is out any more: that is when an answer to a needless probe comes.
        self.on_probe_acked(ack, &news);
        if !had_out {
            if news.duplicate {
                self.alert(now, segment, &mut news);
            }
            return;
        }
        let delivery = &mut self.delivery;
        if delivery.app_limited > 0 && delivery.delivered > delivery.app_limited {
            delivery.app_limited = 0;
        }
        let echo = segment.ece && self.ecn != EcnMode::Counted;
        let calm = self.state == State::Open && news.in_sequence > 0;
        let armed = if calm && !news.sacked && !news.duplicate && !echo {
            false
        } else {
            self.alert(now, segment, &mut news)
        };
        if !armed && self.restarts_timer(&news) {
            self.restart_timer(Nanos(now), true);
        }
        self.adapt_window(now, &news);
    }

    /// Segments of these that were marked, as far as the peer says.
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
                // An acknowledgement that was overtaken tells what is known.
                if new > u32::MAX / 2 {
                    return 0;
                }
                self.marked = segment.marked;
                new
            }
        }
    }

    /// Takes round-trip times, of segments that were sent once only (Karn's rule) or by the
    /// timestamp, and returns the one for congestion control: the latest segment's.
    fn measure(&mut self, now: u64, segment: &Segment, news: &News) -> Option<u64> {
        let clean = !news.retransmission_acked;
        let first = news.first_sent.filter(|_| clean);
        let latest = news.last_sacked.or(news.last_sent.filter(|_| clean));
        let mut rtt = latest.map(|sent| now - sent);
        let mut taken = first.or(news.first_sacked).map(|sent| now - sent);
        if taken.is_none() && news.in_sequence > 0 && segment.echo > 0 {
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

    fn sample(&self, now: u64, news: &News) -> Sample {
        let delivered = self.delivery.delivered;
        let mut sample = Sample {
            delivered,
            newly: news.newly,
            rtt: news.rtt,
            delayed: news.delayed,
            prior_in_flight: news.prior_in_flight,
            in_flight: self.in_flight(),
            marked: news.marked,
            losses: news.losses,
            all_losses: self.losses,
            ..Sample::default()
        };
        if let Some(latest) = news.latest {
            let sending = latest.time - latest.first_time;
            let receiving = now - latest.delivered_time;
            sample.prior_delivered = latest.delivered;
            sample.segments = delivered - latest.delivered;
            sample.app_limited = latest.app_limited;
            let interval = sending.max(receiving);
            // Shorter than any round trip is no measure.
            if self.rtt.min().is_none_or(|min| interval >= min) {
                sample.interval = interval;
            }
        }
        sample
    }

    fn adapt_window(&mut self, now: u64, news: &News) {
        let c = self.connection(now);
        if let (Some(rtt), true) = (news.rtt, news.in_sequence > 0 || news.sacked) {
            self.control.on_measured(&mut self.window, &c, rtt);
        }
        if self.control.takes_samples() {
            let sample = self.sample(now, news);
            self.control.on_ack(&mut self.window, &c, &sample);
        }
        if self.control.is_its_own() {
            if self.control.probes_rtt() {
                // Little is sent on purpose: that is no sign of a low rate.
                self.delivery.app_limited =
                    (self.delivery.delivered + u64::from(self.in_flight())).max(1);
            }
            return;
        }
        if matches!(self.state, State::Reducing | State::Recovery) {
            self.reduce(news);
        } else {
            let may = if self.rack.reordering { news.newly > 0 } else { news.in_sequence > 0 };
            if may {
                self.control.grow(&mut self.window, &c, news.newly);
            }
        }
    }
}
