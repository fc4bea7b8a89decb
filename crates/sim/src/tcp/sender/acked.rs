//! What an acknowledgement changes.

use forebay_units::Nanos;

use super::super::congestion::Sample;
use super::super::ring::Sent;
use super::super::segment::Segment;
use super::{Sender, State};

/// What one acknowledgement brought.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Segments delivered, in sequence or not.
    pub(super) newly: u32,
    pub(super) advanced: bool,
    pub(super) data_acked: bool,
    /// Segments newly taken for lost.
    pub(super) losses: u32,
    /// A retransmission was lost.
    pub(super) lost_again: bool,
    retransmission_acked: bool,
    /// When the first and the last segment were sent that were acknowledged and sent only once.
    first_sent: Option<u64>,
    last_sent: Option<u64>,
    first_sacked: Option<u64>,
    /// The segment delivered that was sent last.
    latest: Option<Sent>,
    /// The peer says something came twice.
    pub(super) duplicate: bool,
}

impl Sender {
    /// An acknowledgement came, with data or without.
    pub(crate) fn on_ack(&mut self, now: Nanos, segment: &Segment) {
        let now = now.0;
        if segment.ack > self.next || segment.ack < self.una {
            return;
        }
        self.edge = self.edge.max(segment.ack + u64::from(segment.window));
        let prior_in_flight = self.in_flight();
        let had_out = self.ring.len() > 0;
        let mut news = News { advanced: segment.ack > self.una, ..News::default() };
        self.rack.advanced = false;
        self.take_sacks(now, segment, &mut news);
        self.take_sequence(now, segment.ack, &mut news);
        // Also when nothing is out any more: that is when an answer to a needless probe comes.
        self.on_probe_acked(segment.ack, &news);
        if !had_out {
            return;
        }
        let rtt = self.measure(now, &mut news);
        let mut sample = self.sample(now, &news);
        sample.rtt = rtt;
        sample.prior_in_flight = prior_in_flight;
        if segment.ece {
            sample.marked = news.newly;
        }
        self.repair(now, segment, &mut news);
        if news.newly > 0 {
            self.restart_timer(Nanos(now));
        }
        sample.losses = news.losses;
        sample.in_flight = self.in_flight();
        self.adapt_window(now, &news, &sample);
    }

    fn take_sacks(&mut self, now: u64, segment: &Segment, news: &mut News) {
        if segment.sack.is_empty() {
            self.seen = [(0, 0); 3];
            return;
        }
        let mut seen = [(0, 0); 3];
        let before = self.seen;
        let highest = self.highest;
        for (i, (start, end)) in segment.sack.blocks(segment.ack).enumerate() {
            if i == 0 && segment.sack.duplicate {
                news.duplicate = true;
                // A needless probe says nothing of reordering.
                if self.probe_end.is_none() || !self.probe_was_retransmission {
                    self.rack.on_duplicate(segment.ack, self.next);
                }
                self.undo = self.undo.map(|n| if n > 0 { n - 1 } else { n });
                continue;
            }
            seen[i] = (start, end);
            let known = before.iter().find(|b| b.0 <= start && start < b.1);
            let start = known.map_or(start, |b| b.1).max(self.una);
            if start >= end.min(self.next) {
                continue;
            }
            let mut number = self.ring.find(start);
            while number != self.ring.next() {
                let sent = *self.ring.get(number);
                if sent.end() > end {
                    break;
                }
                if !sent.sacked {
                    self.sacked_one(now, number, sent, highest, news);
                }
                number = number.wrapping_add(1);
            }
        }
        self.seen = seen;
    }

    fn sacked_one(&mut self, now: u64, number: u32, sent: Sent, highest: u64, news: &mut News) {
        if sent.lost {
            self.lost -= 1;
        }
        if sent.retransmitted {
            self.retransmitted -= 1;
        }
        if !sent.ever_retransmitted {
            news.first_sacked.get_or_insert(sent.time);
            // Below what was known to have arrived, and never sent again: it was overtaken.
            self.rack.reordering |= sent.seq < highest;
        }
        let marked = self.ring.get_mut(number);
        (marked.sacked, marked.lost, marked.retransmitted) = (true, false, false);
        self.highest = self.highest.max(sent.end());
        self.ring.unlist(number);
        self.sacked += 1;
        self.delivered_one(now, &sent, news);
    }

    fn take_sequence(&mut self, now: u64, ack: u64, news: &mut News) {
        while let Some(sent) = self.ring.front().copied().filter(|s| s.end() <= ack) {
            news.data_acked = true;
            if sent.retransmitted {
                self.retransmitted -= 1;
            }
            if sent.lost {
                self.lost -= 1;
            }
            if sent.ever_retransmitted {
                news.retransmission_acked |= !sent.sacked;
            } else if !sent.sacked {
                news.first_sent.get_or_insert(sent.time);
                news.last_sent = Some(sent.time);
                self.rack.reordering |= sent.seq < self.highest;
            }
            if sent.sacked {
                self.sacked -= 1;
            } else {
                self.delivered_one(now, &sent, news);
            }
            self.ring.pop();
        }
        self.una = ack;
        let first = self.ring.first();
        if first.wrapping_sub(self.hint) < 1 << 31 {
            self.hint = first;
        }
    }

    fn delivered_one(&mut self, now: u64, sent: &Sent, news: &mut News) {
        news.newly += 1;
        self.delivered += 1;
        self.delivered_time = now;
        self.rack.on_delivered(now, sent.time, sent.end(), sent.ever_retransmitted, &self.rtt);
        let later = |l: &Sent| (sent.time, sent.end()) > (l.time, l.end());
        if news.latest.as_ref().is_none_or(later) {
            news.latest = Some(*sent);
            self.first_time = sent.time;
        }
    }

    /// Takes round-trip times, of segments that were sent once only (Karn's rule), and returns the
    /// one for congestion control: the latest segment's.
    fn measure(&mut self, now: u64, news: &mut News) -> Option<u64> {
        let first = news.first_sent.filter(|_| !news.retransmission_acked);
        let latest = news.last_sent.filter(|_| !news.retransmission_acked).or(news.first_sacked);
        if let Some(sent) = first.or(news.first_sacked) {
            self.rtt.sample(now - sent, self.una, self.next);
            self.backoff = 0;
        }
        let rtt = latest.map(|sent| now - sent);
        if let Some(rtt) = rtt {
            self.rtt.note_min(rtt);
        }
        if news.advanced && news.retransmission_acked {
            self.backoff = 0;
        }
        rtt
    }

    fn sample(&mut self, now: u64, news: &News) -> Sample {
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let mut sample =
            Sample { delivered: self.delivered, newly: news.newly, ..Sample::default() };
        if let Some(latest) = news.latest {
            let sending = latest.time - latest.first_time;
            let receiving = now - latest.delivered_time;
            sample.prior_delivered = latest.delivered;
            sample.segments = self.delivered - latest.delivered;
            sample.app_limited = latest.app_limited;
            let interval = sending.max(receiving);
            // Shorter than any round trip is no measure.
            if self.rtt.min().is_none_or(|min| interval >= min) {
                sample.interval = interval;
            }
        }
        sample
    }

    fn adapt_window(&mut self, now: u64, news: &News, sample: &Sample) {
        let c = self.connection(now);
        if let (Some(rtt), true) = (sample.rtt, news.newly > 0) {
            self.control.on_measured(&mut self.window, &c, rtt);
        }
        self.control.on_ack(&mut self.window, &c, sample);
        if self.control.is_its_own() {
            return;
        }
        if matches!(self.state, State::Reducing | State::Recovery) {
            self.reduce(news);
        } else {
            let may = if self.rack.reordering { news.newly > 0 } else { news.data_acked };
            if may {
                self.control.grow(&mut self.window, &c, news.newly);
            }
        }
    }
}
