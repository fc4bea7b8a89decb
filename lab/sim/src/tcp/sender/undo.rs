//! Undo of a spurious reduction of the window.
//!
//! A reduction is spurious if all retransmissions arrived twice (DSACK, RFC 2883), or if timestamps
//! show that the originals arrived (RFC 3522).

use super::super::TICK;
use super::super::segment::Segment;
use super::{Sender, State};

/// The state that an undo needs.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The first unacknowledged byte when the episode began; `None` if there is nothing to undo.
    marker: Option<u64>,
    /// The retransmissions that were not reported as needless; -1 before the first.
    retransmissions: i32,
    /// When the first retransmission of the episode was sent.
    first: Option<u64>,
    pub(super) prior_window: u32,
    /// The threshold before the reduction; zero if it must not be restored, because of a mark.
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

    /// Handles a DSACK of a segment that ends at `end`.
    pub(super) fn on_duplicate(&mut self, end: u64) {
        if self.marker.is_some_and(|m| end > m) && self.retransmissions > 0 {
            self.retransmissions -= 1;
        }
    }

    fn all_needless(&self) -> bool {
        self.is_on() && self.retransmissions == 0
    }

    /// Returns whether the peer echoes a timestamp from before the first retransmission.
    fn original_arrived(&self, segment: &Segment) -> bool {
        let before = |t: u64| segment.echo > 0 && segment.echo / TICK < t / TICK;
        self.is_on() && self.first.is_some_and(before)
    }

    fn is_spurious(&self, segment: &Segment) -> bool {
        self.all_needless() || self.original_arrived(segment)
    }
}

impl Sender {
    fn restore(&mut self, unmark: bool) {
        if unmark && self.lost > 0 {
            for n in 0..self.ring.len() {
                let number = self.ring.first().wrapping_add(n);
                // RACK does not list them again: a segment that is really lost waits for the timer.
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

    /// Ends a recovery, and undoes it if it was spurious.
    pub(super) fn undo_recovery(&mut self, segment: &Segment) {
        if self.undo.is_spurious(segment) {
            self.restore(false);
        } else {
            self.rack.on_recovered();
        }
        self.state = State::Open;
    }

    /// Undoes the reduction if all retransmissions were needless. Returns whether it did.
    pub(super) fn undo_by_duplicates(&mut self) -> bool {
        let may = self.undo.all_needless();
        if may {
            self.rack.on_undone();
            self.restore(false);
        }
        may
    }

    /// Undoes a recovery on a partial acknowledgement, if the original arrived. Returns true if no
    /// further loss is to be marked now.
    pub(super) fn undo_partly(&mut self, segment: &Segment) -> bool {
        if !self.undo.original_arrived(segment) {
            return false;
        }
        self.rack.reordering = true;
        if self.retransmitted > 0 {
            // Acknowledgements of the retransmissions may still come.
            return true;
        }
        if !self.any_retransmitted() {
            self.undo.forget_first();
        }
        self.restore(true);
        self.keep_open();
        false
    }

    /// Undoes a timeout if it was spurious. Returns whether it did.
    pub(super) fn undo_timeout(&mut self, segment: &Segment, spurious: bool) -> bool {
        let may = spurious || self.undo.is_spurious(segment);
        if may {
            self.restore(true);
            self.timeouts_in_row = 0;
            self.state = State::Open;
        }
        may
    }
}
