//! The transmission of new data, retransmissions and probes.

use forebay_units::Nanos;

use super::super::MSS;
use super::super::ring::Sent;
use super::super::segment::Segment;
use super::{Frto, Sender, State, Timer};

impl Sender {
    /// Adds `bytes` that the application has to send.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.buffer.offer(bytes);
    }

    /// Discards the data that was not sent.
    pub(crate) fn stop(&mut self) {
        self.written = self.next;
        self.buffer.clear();
        self.bursts.abandon();
    }

    /// Fills `segment` with data that may be sent now. Returns false if there is none.
    pub(crate) fn transmit(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        loop {
            if self.transmit_one(now.0, segment) {
                return true;
            }
            if !self.refill(now.0) {
                break;
            }
        }
        if self.usage.sent > 0 && self.new_sent {
            self.new_sent = false;
            if matches!(self.state, State::Open | State::Reducing) || self.timer.is_none() {
                self.restart_timer(now, false);
            }
        }
        if self.usage.sent > 0 || self.usage.held_back {
            self.validate_window(now.0);
        }
        false
    }

    /// Returns whether there is nothing to send, and nothing was sent since the last call of
    /// [`Sender::transmit`].
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.next == self.written
            && self.buffer.has_written_all()
            && self.ring.len() == 0
            && self.usage.sent == 0
            && !self.usage.held_back
            && self.bursts.deadline().is_none()
    }

    fn transmit_one(&mut self, now: u64, segment: &mut Segment) -> bool {
        if self.bursts.take() {
            self.send_new(now, segment);
            return true;
        }
        if std::mem::take(&mut self.probe.due) && self.ring.len() > 0 {
            self.send_probe(now, segment);
            return true;
        }
        if self.holds_back(now) {
            return false;
        }
        if self.frto != Frto::NewFirst && self.repair(now, segment) {
            return true;
        }
        if self.begin_burst(now) && self.bursts.take() {
            self.send_new(now, segment);
            return true;
        }
        if self.frto == Frto::NewFirst && self.next <= self.high {
            // No new data could be sent, so repair continues. A loop instead of this call would be
            // slower, since the compiler hoists the invariant work out of it.
            self.frto = Frto::Off;
            return self.repair(now, segment);
        }
        false
    }

    /// Retransmits a lost segment. Returns false if there is none.
    fn repair(&mut self, now: u64, segment: &mut Segment) -> bool {
        if self.lost <= self.retransmitted {
            return false;
        }
        let Some(number) = self.next_lost() else { return false };
        self.retransmit(now, number, segment);
        true
    }

    /// Returns whether there is data to send within the windows.
    pub(super) fn has_work(&self) -> bool {
        (self.next < self.written || self.lost > self.retransmitted)
            && self.in_flight() < self.window.size
            && (self.lost > self.retransmitted || self.may_send_new())
    }

    /// Returns whether there is new data within the peer's window.
    pub(super) fn may_send_new(&self) -> bool {
        let len = self.next_len();
        len > 0 && self.next + len <= self.edge
    }

    /// Returns the length of the next segment, which never spans two super-packets.
    fn next_len(&self) -> u64 {
        self.buffer.front().map_or(0, |(end, _)| MSS.min(end - self.next))
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
            self.pace(now, 1, self.next_len());
            self.begin_super_packet(1);
            self.send_new(now, segment);
        } else {
            let last = self.ring.next().wrapping_sub(1);
            self.retransmit(now, last, segment);
        }
        self.new_sent = false;
        self.probe.end = Some(self.next);
        self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
    }

    fn retransmit(&mut self, now: u64, number: u32, segment: &mut Segment) {
        let stamp = self.stamp(now);
        let sent = self.ring.get_mut(number);
        (segment.seq, segment.len) = (sent.seq, sent.len);
        let push = sent.push;
        if !sent.retransmitted {
            sent.retransmitted = true;
            self.retransmitted += 1;
        }
        sent.ever_retransmitted = true;
        sent.time = now;
        (sent.delivered, sent.delivered_time) = (stamp.delivered, stamp.delivered_time);
        (sent.first_time, sent.app_limited) = (stamp.first_time, stamp.app_limited);
        self.ring.list(number);
        self.split_super_packet(number);
        segment.push = push;
        segment.ecn = self.ecn.codepoint_of_others();
        self.retransmissions += 1;
        self.undo.on_retransmitted(now);
        self.pace(now, 1, u64::from(segment.len));
        if number == self.ring.first() && !matches!(self.timer, Some((_, Timer::Reorder))) {
            self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
        }
        self.on_sent(now);
    }

    /// Splits a retransmitted segment from its super-packet.
    fn split_super_packet(&mut self, number: u32) {
        let after = number.wrapping_add(1);
        let mut cuts = u32::from(!std::mem::replace(&mut self.ring.get_mut(number).head, true));
        if after != self.ring.next() {
            cuts += u32::from(!std::mem::replace(&mut self.ring.get_mut(after).head, true));
        }
        self.buffer.on_cut(cuts);
    }

    fn send_new(&mut self, now: u64, segment: &mut Segment) {
        let stamp = self.stamp(now);
        (segment.seq, segment.len) = (self.next, self.next_len() as u32);
        self.next = segment.end();
        segment.push = self.buffer.on_sent(self.next);
        let head = std::mem::take(&mut self.bursts.begins);
        let (seq, len, push) = (segment.seq, segment.len, segment.push);
        self.ring.push(Sent { seq, len, head, push, ..stamp });
        segment.cwr = std::mem::take(&mut self.cwr);
        segment.ecn = self.ecn.codepoint();
        self.new_sent = true;
        self.on_sent(now);
    }

    fn stamp(&mut self, now: u64) -> Sent {
        let delivery = &mut self.delivery;
        if self.ring.len() == 0 {
            (delivery.first_sent, delivery.time) = (now, now);
        }
        Sent {
            time: now,
            delivered: delivery.delivered,
            delivered_time: delivery.time,
            first_time: delivery.first_sent,
            app_limited: delivery.app_limited > 0,
            ..Sent::default()
        }
    }

    fn on_sent(&mut self, now: u64) {
        self.usage.last_sent = now;
        self.usage.sent += 1;
        if matches!(self.state, State::Reducing | State::Recovery) {
            self.reduction.out += 1;
        }
    }
}
