//! Taking a reduction back that nothing had called for: the peer says that all that was sent again
//! came twice (RFC 2883), or the timestamps say that the originals arrived (RFC 3522).

use super::super::TICK;
use super::super::segment::Segment;
use super::{Sender, State};

/// What is needed to undo.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The first byte not acknowledged when the episode began; `None` if there is nothing to undo.
    marker: Option<u64>,
    /// Retransmissions that were not said to be needless; -1 before the first.
    retransmissions: i32,
    /// When the episode's first retransmission was sent.
    first: Option<u64>,
    pub(super) prior_window: u32,
    /// The threshold before, zero if it is not to be restored (because of a mark).
    pub(super) prior_threshold: u32,
}

impl Undo {
    pub(super) fn begin(&mut self, una: u64, under_way: u32) {
        self.marker = Some(una);
        self.retransmissions = if under_way > 0 { under_way as i32 } else { -1 };
    }

    pub(super) fn forget(&mut self) {
        self.marker = None;
    }

    pub(super) fn forget_first(&mut self) {
        self.first = None;
    }

    pub(super) fn is_on(&self) -> bool {
        self.marker.is_some()
    }

    pub(super) fn on_retransmitted(&mut self, now: u64) {
        self.first.get_or_insert(now);
        self.retransmissions = self.retransmissions.max(0) + 1;
    }

    /// What ends at `end` came twice.
    pub(super) fn on_duplicate(&mut self, end: u64) {
        if self.marker.is_some_and(|m| end > m) && self.retransmissions > 0 {
            self.retransmissions -= 1;
        }
    }

    fn all_needless(&self) -> bool {
        self.is_on() && self.retransmissions == 0
    }

    /// The peer answers what was sent before the first retransmission.
    fn original_arrived(&self, segment: &Segment) -> bool {
        let before = |t: u64| segment.echo > 0 && segment.echo / TICK < t / TICK;
        self.is_on() && self.first.is_some_and(before)
    }

    fn may(&self, segment: &Segment) -> bool {
        self.all_needless() || self.original_arrived(segment)
    }
}

impl Sender {
    fn take_back(&mut self, unmark: bool) {
        if unmark && self.lost > 0 {
            for n in 0..self.ring.len() {
                let number = self.ring.first().wrapping_add(n);
                // RACK does not watch them again: one that is lost after all waits for the timer.
                self.ring.get_mut(number).lost = false;
            }
            self.lost = 0;
        }
        if self.undo.prior_threshold > 0 {
            self.window.size = self.control.undo(&self.window, self.undo.prior_window);
            if self.undo.prior_threshold > self.window.threshold {
                self.window.threshold = self.undo.prior_threshold;
                self.cwr = false;
            }
        }
        self.usage.stamp = self.delivery.time;
        self.undo.forget();
        self.rack.advanced = true;
    }

    /// At the end of an episode.
    pub(super) fn undo_recovery(&mut self, segment: &Segment) {
        if self.undo.may(segment) {
            self.take_back(false);
        } else {
            self.rack.on_recovered();
        }
        self.state = State::Open;
    }

    /// On word of duplicates.
    pub(super) fn undo_by_duplicates(&mut self) -> bool {
        let may = self.undo.all_needless();
        if may {
            self.rack.on_undone();
            self.take_back(false);
        }
        may
    }

    /// On a partial acknowledgement in recovery; true if nothing more is to be marked now.
    pub(super) fn undo_partly(&mut self, segment: &Segment) -> bool {
        if !self.undo.original_arrived(segment) {
            return false;
        }
        self.rack.reordering = true;
        if self.retransmitted > 0 {
            // They may yet tell otherwise.
            return true;
        }
        if !self.any_retransmitted() {
            self.undo.forget_first();
        }
        self.take_back(true);
        self.keep_open();
        false
    }

    /// After a timeout.
    pub(super) fn undo_timeout(&mut self, segment: &Segment, spurious: bool) -> bool {
        let may = spurious || self.undo.may(segment);
        if may {
            self.take_back(true);
            self.silences = 0;
            self.state = State::Open;
        }
        may
    }
}
