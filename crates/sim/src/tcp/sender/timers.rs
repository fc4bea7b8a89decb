//! The timers: for a retransmission, for a tail-loss probe, and for segments that may only be late.

use forebay_units::Nanos;

use super::sacks::News;
use super::{Forward, Sender, State, Timer};

/// Linux's shortest timer, two of its ticks.
pub(super) const TIMER_MIN: u64 = 2_000_000;
/// What a tail-loss probe allows for a delayed acknowledgement of a single segment.
const DELAYED_ACK: u64 = super::super::rtt::RTO_MIN;
/// Before there is a round-trip time.
const PROBE_INITIAL: u64 = 1_000_000_000;

impl Sender {
    /// Whether an acknowledgement sets the timer anew. One of data that was sent after the head does
    /// not, so that a head lost again does not wait for ever.
    pub(super) fn restarts_timer(&self, news: &News) -> bool {
        let head = self.ring.front().map_or(0, |s| s.time);
        news.in_sequence > 0 || news.first_sacked.is_some_and(|sent| sent < head)
    }

    /// RFC 8985 section 7.2, and RFC 6298 section 5. `advancing` if an acknowledgement is the reason.
    pub(super) fn restart_timer(&mut self, now: Nanos, advancing: bool) {
        let Some(head) = self.ring.front().map(|s| s.time) else {
            self.timer = None;
            return;
        };
        let timeout = self.timeout();
        let left = Nanos((head + timeout.0).saturating_sub(now.0));
        // With gaps, RACK will tell (RFC 8985 section 7.2).
        if !matches!(self.state, State::Open | State::Reducing) || self.sacked > 0 {
            let before = self.timer.map_or(Timer::Retransmit, |t| t.1);
            // In place of a shorter timer, it counts from when the head was sent.
            let left = if before == Timer::Retransmit { timeout } else { left.max(Nanos(1)) };
            self.timer = Some((now.saturating_add(left), Timer::Retransmit));
            return;
        }
        let srtt = self.rtt.smoothed();
        let delay = if self.ring.len() == 1 { DELAYED_ACK } else { TIMER_MIN };
        let mut probe = if srtt > 0 { 2 * srtt + delay } else { PROBE_INITIAL };
        let most = if advancing { timeout } else { left };
        if most > Nanos::ZERO {
            probe = probe.min(most.0);
        }
        self.timer = Some((now.saturating_add(Nanos(probe)), Timer::Probe));
    }

    pub(crate) fn on_timer(&mut self, now: Nanos) {
        self.retry = self.retry.filter(|&retry| retry > now);
        let Some((_, timer)) = self.timer.filter(|t| t.0 <= now) else { return };
        self.timer = None;
        match timer {
            Timer::Reorder => self.on_reordering_settled(now),
            Timer::Probe => self.start_probe(now),
            Timer::Retransmit => self.time_out(now.0),
        }
    }

    fn on_reordering_settled(&mut self, now: Nanos) {
        let mut news = News::default();
        self.detect(now.0, &mut news);
        if news.losses > 0 && self.state != State::Recovery {
            self.enter_recovery(false);
            if !self.control.is_its_own() {
                // As if an acknowledgement had told it.
                news.newly = 1;
                self.reduce(&news);
            }
        }
        if self.timer.is_none() && self.ring.len() > 0 {
            self.timer = Some((now.saturating_add(self.timeout()), Timer::Retransmit));
        }
    }

    /// Sends a segment though nothing says so, to learn what became of the last ones.
    fn start_probe(&mut self, now: Nanos) {
        self.timer = Some((now.saturating_add(self.timeout()), Timer::Retransmit));
        if self.probe.end.is_some() || self.ring.len() == 0 || self.sacked > 0 {
            return;
        }
        self.probe.was_retransmission = !self.may_send_new();
        self.probe.due = true;
    }

    /// RFC 6298 section 5.4 to 5.7, and RFC 5681 section 3.1.
    fn time_out(&mut self, now: u64) {
        if self.ring.len() == 0 {
            return;
        }
        self.timeouts += 1;
        let fresh = self.state < State::Recovery;
        let mut news = News::default();
        for n in 0..self.ring.len() {
            let number = self.ring.first().wrapping_add(n);
            let sent = *self.ring.get(number);
            // What went lately may still arrive.
            let recent = n > 0 && sent.time + self.rack.rtt > now;
            let under_way = sent.lost && !sent.retransmitted;
            if !sent.sacked && !recent && !under_way {
                self.mark_lost(number, &mut news);
            }
        }
        let first = self.state == State::Loss && self.silences == 0;
        if self.state <= State::Disorder || self.una >= self.high || first {
            self.undo.prior_threshold = self.current_threshold();
            self.undo.prior_window = self.window.size;
            self.window.threshold = self.control.on_timeout_threshold(&self.window);
            self.undo.begin(self.una, self.retransmitted);
        }
        self.window.size = self.in_flight() + 1;
        self.window.forget_credit();
        let asks = fresh || self.silences > 0;
        self.forward = if asks { Forward::Watching } else { Forward::Off };
        self.state = State::Loss;
        self.high = self.next;
        self.control.on_timeout(now, self.next);
        self.cwr = self.ecn != super::EcnMode::Off;
        self.probe.end = None;
        self.bursts.abandon();
        self.silences += 1;
        self.backoff += 1;
        self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
    }
}
