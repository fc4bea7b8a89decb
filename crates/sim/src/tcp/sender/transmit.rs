//! What goes next.

use forebay_units::{Bytes, Nanos, Rate};

use super::super::MSS;
use super::super::congestion::{Control, INFINITE};
use super::super::ring::Sent;
use super::super::segment::Segment;
use super::{INITIAL_WINDOW, Sender, State, Timer};
use crate::packet::TCP_HEADERS;

impl Sender {
    /// The application has `bytes` more to send.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// The application takes back what was not sent.
    pub(crate) fn stop(&mut self) {
        self.written = self.next;
    }

    /// Fills the data that may go now into `segment`; false if none may.
    pub(crate) fn transmit(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if self.transmit_one(now.0, segment) {
            segment.cwr = std::mem::take(&mut self.cwr);
            segment.ect = self.control.wants_ecn();
            return true;
        }
        if self.burst > 0 {
            self.burst = 0;
            self.judge_use(now.0);
        }
        false
    }

    fn transmit_one(&mut self, now: u64, segment: &mut Segment) -> bool {
        if std::mem::take(&mut self.probe_due) && self.ring.len() > 0 {
            self.send_probe(now, segment);
            return true;
        }
        if self.next < self.written && self.ring.len() == 0 {
            self.restart(now);
        }
        if !self.may_send() || !self.is_paced_out(now) {
            return false;
        }
        if self.lost > self.retransmitted
            && let Some(number) = self.next_lost()
        {
            self.retransmit(now, number, segment);
            return true;
        }
        if !self.may_send_new() {
            return false;
        }
        self.send_new(now, segment);
        true
    }

    /// Whether the window lets anything out that there is.
    pub(super) fn may_send(&self) -> bool {
        self.in_flight() < self.window.size
            && (self.lost > self.retransmitted || self.may_send_new())
    }

    /// Whether there is anything new that the peer's window has room for.
    pub(super) fn may_send_new(&self) -> bool {
        self.next < self.written && self.next + self.next_len() <= self.edge
    }

    fn next_len(&self) -> u64 {
        MSS.min(self.written - self.next)
    }

    fn next_lost(&mut self) -> Option<u32> {
        while self.hint != self.ring.next() {
            let sent = self.ring.get(self.hint);
            if sent.lost && !sent.retransmitted {
                return Some(self.hint);
            }
            self.hint = self.hint.wrapping_add(1);
        }
        None
    }

    fn send_probe(&mut self, now: u64, segment: &mut Segment) {
        if self.may_send_new() {
            self.send_new(now, segment);
        } else {
            let last = self.ring.next().wrapping_sub(1);
            // What is out again already is not sent a third time.
            self.retransmit(now, last, segment);
        }
        self.probe_end = Some(self.next);
        self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
    }

    fn retransmit(&mut self, now: u64, number: u32, segment: &mut Segment) {
        let stamp = self.stamp(now);
        let sent = self.ring.get_mut(number);
        (segment.seq, segment.len) = (sent.seq, sent.len);
        if !sent.retransmitted {
            sent.retransmitted = true;
            self.retransmitted += 1;
        }
        sent.ever_retransmitted = true;
        sent.time = now;
        (sent.delivered, sent.delivered_time) = (stamp.delivered, stamp.delivered_time);
        (sent.first_time, sent.app_limited) = (stamp.first_time, stamp.app_limited);
        self.ring.list(number);
        segment.push = segment.end() == self.written;
        self.retransmissions += 1;
        self.undo = self.undo.map(|n| n.max(0) + 1);
        if number == self.ring.first()
            && self.timer.is_none_or(|(_, timer)| timer == Timer::Retransmit)
        {
            self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
        }
        self.on_sent(now, segment.len);
    }

    fn send_new(&mut self, now: u64, segment: &mut Segment) {
        let len = self.next_len() as u32;
        let sent = Sent { seq: self.next, len, ..self.stamp(now) };
        self.ring.push(sent);
        (segment.seq, segment.len) = (self.next, len);
        self.next += u64::from(len);
        segment.push = self.next == self.written;
        if matches!(self.state, State::Open | State::Reducing) || self.timer.is_none() {
            self.restart_timer(Nanos(now));
        }
        self.on_sent(now, len);
    }

    fn stamp(&mut self, now: u64) -> Sent {
        if self.ring.len() == 0 {
            (self.first_time, self.delivered_time) = (now, now);
        }
        Sent {
            time: now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_time: self.first_time,
            app_limited: self.app_limited > 0,
            ..Sent::default()
        }
    }

    fn on_sent(&mut self, now: u64, len: u32) {
        self.last_sent = now;
        self.burst += 1;
        if matches!(self.state, State::Reducing | State::Recovery) {
            self.prr_out += 1;
        }
        if let Some(rate) = self.control.pacing() {
            self.pace_left = self.pace_left.saturating_sub(1);
            self.pace_at += rate.time_for(Bytes(u64::from(len) + TCP_HEADERS)).0;
        }
    }

    /// Whether pacing lets a segment out; bursts of a millisecond go at once, as Linux's do.
    fn is_paced_out(&mut self, now: u64) -> bool {
        let Control::Bbr(bbr) = &self.control else { return true };
        if bbr.pacing().is_none_or(|r| r == Rate::ZERO) {
            return true;
        }
        if now >= self.pace_at {
            self.pace_left = bbr.burst();
            self.pace_at = now;
        }
        self.pace_left > 0
    }

    /// Nothing is in flight and sending begins.
    fn restart(&mut self, now: u64) {
        let idle = now - self.last_sent;
        self.control.on_restart(now, idle, self.app_limited > 0);
        if self.control.is_its_own() || idle <= self.timeout().0 {
            return;
        }
        // RFC 5681 section 4.1, by half for each timeout (Linux, after RFC 2861).
        self.window.threshold = self.current_threshold();
        let least = INITIAL_WINDOW.min(self.window.size);
        let mut left = idle;
        while left > self.timeout().0 && self.window.size > least {
            left -= self.timeout().0;
            self.window.size /= 2;
        }
        self.window.size = self.window.size.max(least);
        (self.used, self.used_stamp) = (0, now);
    }

    /// Three quarters of what was in use keep it from growing all anew (RFC 2861 section 3).
    fn current_threshold(&self) -> u32 {
        if self.state >= State::Reducing && self.state != State::Loss {
            return self.window.threshold;
        }
        self.window.threshold.max(self.window.size / 4 * 3).min(INFINITE)
    }

    /// Whether the window or the application limits what is out (Linux's window validation, after
    /// RFC 2861).
    fn judge_use(&mut self, now: u64) {
        let limited = self.in_flight() >= self.window.size;
        let out = self.ring.len();
        if !limited && self.next == self.written && self.lost <= self.retransmitted {
            self.app_limited = (self.delivered + u64::from(self.in_flight())).max(1);
        }
        if self.una >= self.usage_end || limited || (!self.cwnd_limited && out > self.most_out) {
            (self.cwnd_limited, self.most_out, self.usage_end) = (limited, out, self.next);
        }
        if self.connection(now).cwnd_limited {
            (self.used, self.used_stamp) = (0, now);
            return;
        }
        self.used = self.used.max(out);
        if now - self.used_stamp >= self.timeout().0 && !self.control.is_its_own() {
            if self.state == State::Open {
                let used = self.used.max(INITIAL_WINDOW);
                if used < self.window.size {
                    self.window.threshold = self.current_threshold();
                    self.window.size = self.window.size.midpoint(used);
                }
                self.used = 0;
            }
            self.used_stamp = now;
        }
    }
}
