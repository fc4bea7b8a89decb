//! Detection and repair of losses, and the sender's congestion state.

use forebay_units::Nanos;

use super::super::congestion::INFINITE;
use super::super::receiver::EcnMode;
use super::super::ring::NONE;
use super::super::segment::Segment;
use super::sacks::AckSummary;
use super::timers::TIMER_MIN;
use super::{Frto, Reduction, Sender, State, Timer};

impl Sender {
    /// Updates the state after an acknowledgement with SACK, ECN or DSACK information, or outside
    /// the open state. Returns whether the reordering timer was set.
    pub(super) fn alert(&mut self, now: u64, segment: &Segment, summary: &mut AckSummary) -> bool {
        let echo = segment.ece && matches!(self.ecn, EcnMode::Classic | EcnMode::Exact { .. });
        if echo {
            // A mark is congestion, so the reduction is not undone.
            self.undo.prior_threshold = 0;
        }
        if self.state == State::Open {
            self.undo.forget_first();
        } else if self.una >= self.high {
            match self.state {
                // Beyond `high`, so that the peer has received the CWR flag.
                State::Reducing if self.una > self.high => {
                    self.end_reduction();
                    self.state = State::Open;
                }
                State::Recovery => {
                    self.undo_recovery(segment);
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.state {
            State::Recovery => {
                if summary.advanced && self.undo_partly(segment) {
                    return false;
                }
                if self.undo_by_duplicates() {
                    self.open(echo);
                }
                let armed = self.find_losses(now, summary);
                if self.state != State::Recovery {
                    self.recover_or_open(echo);
                }
                armed
            }
            State::Loss => {
                self.after_timeout(segment, summary);
                let armed = self.find_losses(now, summary);
                if self.state == State::Open || summary.lost_again {
                    self.recover_or_open(echo);
                }
                armed
            }
            _ => {
                if self.state <= State::Disorder {
                    self.undo_by_duplicates();
                }
                let armed = self.find_losses(now, summary);
                self.recover_or_open(echo);
                armed
            }
        }
    }

    fn recover_or_open(&mut self, echo: bool) {
        if self.lost > 0 { self.enter_recovery(echo) } else { self.open(echo) }
    }

    fn open(&mut self, echo: bool) {
        if !self.any_retransmitted() {
            self.undo.forget_first();
        }
        if echo && self.state < State::Reducing {
            // One reduction per window (RFC 3168 section 6.1.2).
            self.undo.forget();
            self.begin_reduction();
            self.state = State::Reducing;
        }
        if self.state != State::Reducing {
            self.keep_open();
        }
    }

    pub(super) fn keep_open(&mut self) {
        let disorder = self.sacked + self.lost > 0 || self.any_retransmitted();
        let state = if disorder { State::Disorder } else { State::Open };
        if state != self.state {
            (self.state, self.high) = (state, self.next);
        }
    }

    /// Handles an acknowledgement after a timeout (RFC 5682 section 3.1, with SACK).
    fn after_timeout(&mut self, segment: &Segment, summary: &AckSummary) {
        let recovered = self.una >= self.high;
        let watching = std::mem::replace(&mut self.frto, Frto::Off) != Frto::Off;
        if summary.advanced && self.undo_timeout(segment, false) {
            return;
        }
        if watching {
            // Step 3b: a segment sent only once has arrived, so the timeout was spurious.
            if summary.original_arrived && self.undo_timeout(segment, true) {
                return;
            }
            if self.next > self.high {
                // Step 3a: duplicates for data before the new data mean that it was lost.
                if summary.advanced && !summary.sacked {
                    self.frto = Frto::Watching;
                }
            } else if !summary.advanced || recovered {
                self.frto = Frto::Watching;
            } else {
                self.high = self.next;
                // Step 2b, if there is new data.
                if self.may_send_new() {
                    self.frto = Frto::NewFirst;
                    return;
                }
            }
        }
        if recovered {
            self.undo_recovery(segment);
        }
    }

    /// Detects losses (RFC 8985 section 6.2 step 5). Returns whether the reordering timer was set.
    pub(super) fn find_losses(&mut self, now: u64, summary: &mut AckSummary) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.detect(now, summary)
    }

    pub(super) fn detect(&mut self, now: u64, summary: &mut AckSummary) -> bool {
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
                self.mark_lost(number, summary);
            } else {
                wait = wait.max(due - now);
            }
            number = after;
        }
        if wait > 0 {
            self.timer = Some((Nanos(now + wait + TIMER_MIN), Timer::Reorder));
        }
        wait > 0
    }

    pub(super) fn mark_lost(&mut self, number: u32, summary: &mut AckSummary) {
        let sent = self.ring.get_mut(number);
        if sent.lost {
            sent.retransmitted = false;
            self.retransmitted -= 1;
            summary.lost_again = true;
        } else {
            sent.lost = true;
            self.lost += 1;
            if std::mem::take(&mut sent.retransmitted) {
                self.retransmitted -= 1;
            }
        }
        summary.losses += 1;
        self.losses += 1;
        self.ring.unlist(number);
        if self.hint.wrapping_sub(number) < 1 << 31 {
            self.hint = number;
        }
    }

    pub(super) fn enter_recovery(&mut self, echo: bool) {
        self.undo.prior_threshold = 0;
        let probe = self.probe.end.is_some() && self.probe.was_retransmission;
        self.undo.begin(self.una, self.retransmitted + u32::from(probe));
        if !matches!(self.state, State::Reducing | State::Recovery) {
            if !echo {
                self.undo.prior_threshold = self.current_threshold();
            }
            self.begin_reduction();
        }
        self.state = State::Recovery;
        self.control.on_recovery(&mut self.window);
    }

    pub(super) fn begin_reduction(&mut self) {
        self.high = self.next;
        self.probe.end = None;
        self.window.forget_credit();
        let prior_window = self.window.size;
        self.undo.prior_window = prior_window;
        self.reduction = Reduction { prior_window, ..Reduction::default() };
        self.window.threshold = self.control.on_congestion(&self.window);
        self.cwr = self.ecn != EcnMode::Off;
    }

    /// Reduces the window by RFC 6937 section 3, with Linux's slow-start bound.
    pub(super) fn reduce(&mut self, summary: &AckSummary) {
        let in_flight = self.in_flight();
        let threshold = self.window.threshold;
        let reduction = &mut self.reduction;
        if summary.newly == 0 || reduction.prior_window == 0 {
            return;
        }
        reduction.delivered += summary.newly;
        let out = i64::from(reduction.out);
        let send = if in_flight > threshold {
            let share = u64::from(threshold) * u64::from(reduction.delivered);
            share.div_ceil(u64::from(reduction.prior_window)) as i64 - out
        } else {
            let room = i64::from(threshold - in_flight);
            let mut send = (i64::from(reduction.delivered) - out).max(i64::from(summary.newly));
            if summary.advanced && summary.losses == 0 {
                send += 1;
            }
            send.min(room)
        };
        // The first retransmission is sent at once.
        let least = if reduction.out == 0 { 1 } else { 0 };
        self.window.size = in_flight + send.max(least) as u32;
    }

    pub(super) fn end_reduction(&mut self) {
        let stands = self.state == State::Reducing || self.undo.is_on();
        if stands && !self.control.sets_own_window() && self.window.threshold < INFINITE {
            self.window.size = self.window.threshold;
            self.usage.stamp = self.delivery.time;
        }
    }

    /// Handles the acknowledgement of a probe. If the probe repaired a loss, the window is reduced
    /// (RFC 8985 section 7.4).
    pub(super) fn on_probe_acked(&mut self, ack: u64, summary: &AckSummary) {
        let Some(end) = self.probe.end.filter(|end| ack >= *end) else { return };
        let needless = summary.probe_needless || (!summary.advanced && summary.newly == 0);
        if !self.probe.was_retransmission || needless {
            self.probe.end = None;
        } else if ack > end {
            self.begin_reduction();
            self.state = State::Reducing;
            self.end_reduction();
            self.keep_open();
        }
    }
}
