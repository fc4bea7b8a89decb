//! The timers for retransmissions, tail-loss probes and reordering.

use forebay_units::Nanos;

use super::sacks::AckSummary;
use super::{Frto, Sender, State, Timer};

/// Linux's shortest timer in nanoseconds, two jiffies.
pub(super) const TIMER_MIN: u64 = 2_000_000;
/// The time in nanoseconds that a tail-loss probe allows for the delayed acknowledgement of a
/// single segment.
const DELAYED_ACK: u64 = super::super::rtt::RTO_MIN;
/// The time to the probe in nanoseconds before a round-trip time is known.
const PROBE_INITIAL: u64 = 1_000_000_000;

impl Sender {
    /// Returns whether an acknowledgement restarts the timer.
    ///
    /// An acknowledgement of data sent after the head does not. Otherwise a lost retransmission of
    /// the head could wait forever.
    pub(super) fn restarts_timer(&self, summary: &AckSummary) -> bool {
        let head = self.ring.front().map_or(0, |s| s.time);
        summary.in_sequence > 0 || summary.first_sacked.is_some_and(|sent| sent < head)
    }

    /// Restarts the probe or retransmission timer (RFC 8985 section 7.2 and RFC 6298 section 5).
    /// `advancing` tells whether an acknowledgement is the reason.
    pub(super) fn restart_timer(&mut self, now: Nanos, advancing: bool) {
        let Some(head) = self.ring.front().map(|s| s.time) else {
            self.timer = None;
            return;
        };
        let timeout = self.timeout();
        let left = Nanos((head + timeout.0).saturating_sub(now.0));
        // With gaps, RACK detects the loss without a probe (RFC 8985 section 7.2).
        if !matches!(self.state, State::Open | State::Reducing) || self.sacked > 0 {
            let before = self.timer.map_or(Timer::Retransmit, |t| t.1);
            // If it replaces a shorter timer, it counts from the transmission of the head.
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
        let mut summary = AckSummary::default();
        self.detect(now.0, &mut summary);
        if summary.losses > 0 && self.state != State::Recovery {
            self.enter_recovery(false);
            if !self.control.sets_own_window() {
                // As if an acknowledgement had detected the loss.
                summary.newly = 1;
                self.reduce(&summary);
            }
        }
        if self.timer.is_none() && self.ring.len() > 0 {
            self.timer = Some((now.saturating_add(self.timeout()), Timer::Retransmit));
        }
    }

    /// Starts a tail-loss probe, whose acknowledgement shows whether the last segments arrived.
    fn start_probe(&mut self, now: Nanos) {
        self.timer = Some((now.saturating_add(self.timeout()), Timer::Retransmit));
        if self.probe.end.is_some() || self.ring.len() == 0 || self.sacked > 0 {
            return;
        }
        self.probe.was_retransmission = !self.may_send_new();
        self.probe.due = true;
    }

    /// Handles a retransmission timeout (RFC 6298 sections 5.4 to 5.7 and RFC 5681 section 3.1).
    fn time_out(&mut self, now: u64) {
        if self.ring.len() == 0 {
            return;
        }
        self.timeouts += 1;
        let fresh = self.state < State::Recovery;
        let mut summary = AckSummary::default();
        for n in 0..self.ring.len() {
            let number = self.ring.first().wrapping_add(n);
            let sent = *self.ring.get(number);
            // Recently sent segments may still arrive.
            let recent = n > 0 && sent.time + self.rack.rtt > now;
            let under_way = sent.lost && !sent.retransmitted;
            if !sent.sacked && !recent && !under_way {
                self.mark_lost(number, &mut summary);
            }
        }
        let repeated = self.state == State::Loss && self.timeouts_in_row == 0;
        if self.state <= State::Disorder || self.una >= self.high || repeated {
            self.undo.prior_threshold = self.current_threshold();
            self.undo.prior_window = self.window.size;
            self.window.threshold = self.control.on_timeout_threshold(&self.window);
            self.undo.begin(self.una, self.retransmitted);
        }
        self.window.size = self.in_flight() + 1;
        self.window.forget_credit();
        let detect = fresh || self.timeouts_in_row > 0;
        self.frto = if detect { Frto::Watching } else { Frto::Off };
        self.state = State::Loss;
        self.high = self.next;
        self.control.on_timeout(now, self.next);
        self.cwr = self.ecn != super::EcnMode::Off;
        self.probe.end = None;
        self.bursts.abandon();
        self.timeouts_in_row += 1;
        self.backoff += 1;
        self.timer = Some((Nanos(now).saturating_add(self.timeout()), Timer::Retransmit));
    }
}
