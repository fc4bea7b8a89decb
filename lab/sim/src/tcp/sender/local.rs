//! The interaction of a sender with its machine's queue.

use forebay_units::Nanos;

use super::super::rtt::RTO_MIN;
use super::{Sender, State};

impl Sender {
    /// Returns whether windows and pacing allow data to be sent. [`Sender::transmit`] may still
    /// send nothing, if it waits for a larger window.
    pub(crate) fn wants_to_send(&mut self, now: u64) -> bool {
        loop {
            if self.bursts.any_left() || self.probe.due || !self.holds_back(now) {
                return true;
            }
            if self.bursts.deadline().is_some() || !self.refill(now) {
                return false;
            }
        }
    }

    /// Returns whether the next segment belongs to the same super-packet as the last one.
    pub(crate) fn is_within_burst(&self) -> bool {
        self.bursts.any_left()
    }

    /// Handles the refusal of a super-packet by the machine's queue.
    ///
    /// The data stays in the buffer, and the window is reduced as by a mark, once per round trip
    /// (`tcp_enter_cwr`, from `tcp_transmit_skb`). With nothing in flight no acknowledgement
    /// triggers the next attempt, so a timer does (`tcp_check_probe_timer`).
    pub(crate) fn on_local_drop(&mut self, now: Nanos) {
        if self.state < State::Reducing {
            self.undo.forget();
            self.begin_reduction();
            self.state = State::Reducing;
        }
        if self.ring.len() == 0 && self.retry.is_none() {
            let wait = self.timeout().max(Nanos(RTO_MIN));
            self.retry = Some(now.saturating_add(wait));
        }
    }
}
