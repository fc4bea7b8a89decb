//! A sender and its own machine's queue.

use forebay_units::Nanos;

use super::super::rtt::RTO_MIN;
use super::{Sender, State};

impl Sender {
    /// Whether there is something to send that windows and pace let out. Whether it is better to wait
    /// for a larger window is not asked: [`Sender::transmit`] may still send nothing.
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

    /// Whether the next segment is of the same super-packet as the last.
    pub(crate) fn is_within_burst(&self) -> bool {
        self.bursts.any_left()
    }

    /// What was to be sent was refused: it stays where it is, and the window is reduced as by a mark,
    /// once a round trip (`tcp_enter_cwr`, from `tcp_transmit_skb`). With nothing on its way no
    /// acknowledgement will come to try again at; then a timer does (`tcp_check_probe_timer`).
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
