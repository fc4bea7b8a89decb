//! Finding and repairing losses.

use forebay_units::Nanos;

use super::super::congestion::INFINITE;
use super::super::ring::NONE;
use super::super::segment::Segment;
use super::acked::News;
use super::{Sender, State, Timer};

/// Linux's shortest timer, two of its ticks.
const TIMER_MIN: u64 = 2_000_000;
/// What a tail-loss probe allows for a delayed acknowledgement of a single segment.
const DELAYED_ACK: u64 = super::super::rtt::RTO_MIN;

impl Sender {
    /// The state that follows from an acknowledgement.
    pub(super) fn repair(&mut self, now: u64, segment: &Segment, news: &mut News) {
        if segment.ece && news.advanced {
            self.on_marked();
        }
        if self.undo == Some(0) {
            self.take_back();
        }
        match self.state {
            State::Recovery if self.una >= self.high => self.end_reduction(),
            State::Reducing if self.una > self.high => self.end_reduction(),
            State::Loss if self.una >= self.high => self.recovered(),
            State::Disorder if self.sacked == 0 => self.state = State::Open,
            _ => {}
        }
        if self.rack.advanced {
            self.find_losses(now, news);
        }
        if self.lost > 0 && (self.state < State::Recovery || self.lost_again(news)) {
            self.enter_recovery();
        }
        if self.state == State::Open && self.sacked > 0 {
            self.state = State::Disorder;
        }
    }

    fn lost_again(&self, news: &News) -> bool {
        self.state == State::Loss && news.lost_again
    }

    /// RFC 8985 section 6.2 step 5.
    fn find_losses(&mut self, now: u64, news: &mut News) {
        let patience = self.rack.patience(self.state >= State::Recovery, self.sacked, &self.rtt);
        let limit = self.rack.rtt + patience;
        let mut wait = 0;
        let mut number = self.ring.oldest();
        while number != NONE {
            let sent = *self.ring.get(number);
            let after = self.ring.sent_after(number);
            if !self.rack.is_past(sent.time, sent.end()) {
                break;
            }
            let due = sent.time + limit;
            if due <= now {
                self.mark_lost(number, news);
            } else {
                wait = wait.max(due - now);
            }
            number = after;
        }
        if wait > 0 {
            self.timer = Some((Nanos(now + wait + TIMER_MIN), Timer::Reorder));
        }
    }

    fn mark_lost(&mut self, number: u32, news: &mut News) {
        let sent = self.ring.get_mut(number);
        if sent.lost {
            sent.retransmitted = false;
            self.retransmitted -= 1;
            news.lost_again = true;
        } else {
            sent.lost = true;
            self.lost += 1;
            if std::mem::take(&mut sent.retransmitted) {
                self.retransmitted -= 1;
            }
        }
        news.losses += 1;
        self.ring.unlist(number);
        if self.hint.wrapping_sub(number) < 1 << 31 {
            self.hint = number;
        }
    }

    fn enter_recovery(&mut self) {
        if self.state != State::Reducing {
            self.prior_threshold = self.window.threshold;
            self.begin_reduction();
        }
        self.undo = Some(-1);
        self.state = State::Recovery;
    }

    fn begin_reduction(&mut self) {
        self.high = self.next;
        self.probe_end = None;
        self.window.forget_credit();
        self.prior_window = self.window.size;
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.window.threshold = self.control.on_congestion(&self.window);
    }

    /// RFC 6937 section 3, with Linux's slow-start bound where the window has room.
    pub(super) fn reduce(&mut self, news: &News) {
        if news.newly == 0 || self.prior_window == 0 {
            return;
        }
        self.prr_delivered += news.newly;
        let in_flight = self.in_flight();
        let threshold = self.window.threshold;
        let out = i64::from(self.prr_out);
        let send = if in_flight > threshold {
            let share = u64::from(threshold) * u64::from(self.prr_delivered);
            share.div_ceil(u64::from(self.prior_window)) as i64 - out
        } else {
            let room = i64::from(threshold - in_flight);
            let mut send = (i64::from(self.prr_delivered) - out).max(i64::from(news.newly));
            if news.advanced && news.losses == 0 {
                send += 1;
            }
            send.min(room)
        };
        // The first retransmission goes at once.
        let least = if self.prr_out == 0 { 1 } else { 0 };
        self.window.size = in_flight + send.max(least) as u32;
    }

    fn end_reduction(&mut self) {
        if !self.control.is_its_own() && self.window.threshold < INFINITE {
            self.window.size = self.window.threshold;
            self.used_stamp = self.delivered_time;
        }
        self.recovered();
    }

    fn recovered(&mut self) {
        self.rack.on_recovered();
        self.undo = None;
        self.state = if self.sacked > 0 { State::Disorder } else { State::Open };
    }

    /// All that was sent again came twice: nothing had been lost.
    fn take_back(&mut self) {
        for n in 0..self.ring.len() {
            let number = self.ring.first().wrapping_add(n);
            let sent = self.ring.get_mut(number);
            if std::mem::take(&mut sent.lost) {
                self.lost -= 1;
                if !sent.retransmitted {
                    self.ring.list(number);
                }
            }
        }
        self.window.size = self.window.size.max(self.prior_window);
        self.window.threshold = self.window.threshold.max(self.prior_threshold);
        self.rack.reordering = true;
        self.recovered();
    }

    /// The peer echoes a mark: reduce once per window (RFC 3168 section 6.1.2).
    fn on_marked(&mut self) {
        if self.state < State::Reducing && self.una >= self.reduced_to {
            self.reduced_to = self.next;
            self.cwr = true;
            self.begin_reduction();
            self.state = State::Reducing;
        }
    }

    /// RFC 8985 section 7.4: a probe that repaired a loss costs as much as one found otherwise.
    pub(super) fn on_probe_acked(&mut self, ack: u64, news: &News) {
        let Some(end) = self.probe_end.filter(|end| ack >= *end) else { return };
        let both_came = news.duplicate || (!news.advanced && news.newly == 0);
        if !self.probe_was_retransmission || both_came {
            self.probe_end = None;
        } else if ack > end {
            self.probe_end = None;
            if self.state < State::Reducing && !self.control.is_its_own() {
                self.begin_reduction();
                self.window.size = self.window.threshold;
            }
        }
    }

    /// RFC 8985 section 7.2, and RFC 6298 section 5.
    pub(super) fn restart_timer(&mut self, now: Nanos) {
        if self.ring.len() == 0 {
            self.timer = None;
            return;
        }
        if self.timer.is_some_and(|t| t.1 == Timer::Reorder && t.0 > now) {
            return;
        }
        let retransmit = now.saturating_add(self.timeout());
        let may_probe = matches!(self.state, State::Open | State::Reducing) && self.sacked == 0;
        if !may_probe {
            self.timer = Some((retransmit, Timer::Retransmit));
            return;
        }
        let srtt = self.rtt.smoothed();
        let delay = if self.ring.len() == 1 { DELAYED_ACK } else { TIMER_MIN };
        let probe = if srtt > 0 { 2 * srtt + delay } else { 1_000_000_000 };
        let head = self.ring.front().map_or(now.0, |s| s.time);
        let left = (head + self.timeout().0).saturating_sub(now.0);
        self.timer = Some((now.saturating_add(Nanos(probe.min(left))), Timer::Probe));
    }

    pub(crate) fn on_timer(&mut self, now: Nanos) {
        let Some((_, timer)) = self.timer.filter(|t| t.0 <= now) else { return };
        self.timer = None;
        match timer {
            Timer::Reorder => {
                let mut news = News::default();
                self.find_losses(now.0, &mut news);
                if news.losses > 0 {
                    if self.state != State::Recovery {
                        self.enter_recovery();
                    }
                    if !self.control.is_its_own() {
                        // As if an acknowledgement had told it.
                        news.newly = 1;
                        self.reduce(&news);
                    }
                }
                if self.timer.is_none() {
                    self.timer = Some((now.saturating_add(self.timeout()), Timer::Retransmit));
                }
            }
            Timer::Probe => self.probe(now),
            Timer::Retransmit => self.time_out(now.0),
        }
    }

    /// Sends a segment though nothing says so, to learn what became of the last ones.
    fn probe(&mut self, now: Nanos) {
        self.timer = Some((now.saturating_add(self.timeout()), Timer::Retransmit));
        if self.probe_end.is_some() || self.ring.len() == 0 {
            return;
        }
        self.probe_was_retransmission = !self.may_send_new();
        self.probe_due = true;
    }

    /// RFC 6298 section 5.4 to 5.7, and RFC 5681 section 3.1.
    fn time_out(&mut self, now: u64) {
        if self.ring.len() == 0 {
            return;
        }
        self.timeouts += 1;
        let patience = self.rack.patience(true, self.sacked, &self.rtt);
        let limit = self.rack.rtt + patience;
        let mut news = News::default();
        for n in 0..self.ring.len() {
            let number = self.ring.first().wrapping_add(n);
            let sent = *self.ring.get(number);
            let recent = n > 0 && sent.time + limit > now;
            let under_way = sent.lost && !sent.retransmitted;
            if !sent.sacked && !recent && !under_way {
                self.mark_lost(number, &mut news);
            }
        }
        let first = self.state == State::Loss && self.backoff == 0;
        if self.state <= State::Disorder || self.una >= self.high || first {
            self.prior_threshold = self.window.threshold;
            self.prior_window = self.window.size;
            self.window.threshold = self.control.on_congestion(&self.window);
            self.control.on_timeout(now);
        }
        self.undo = None;
        self.window.size = self.in_flight() + 1;
        self.window.forget_credit();
        self.state = State::Loss;
        self.high = self.next;
        self.probe_end = None;
        self.backoff += 1;
        self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
    }
}
