//! Congestion window validation: whether the window is used (Linux's form of RFC 2861 and RFC
//! 7661).
//!
//! The window grows only if it limits the sender, and shrinks if it is unused or after an idle
//! time.

use super::{INITIAL_WINDOW, Sender, State, Window};

/// The use of the congestion window.
#[derive(Debug)]
pub(super) struct Usage {
    /// Whether the window limited the sender in the current round trip.
    cwnd_limited: bool,
    /// The most segments out in the current round trip.
    most_out: u32,
    /// The byte whose acknowledgement ends the current round trip.
    end: u64,
    /// The most segments out since the window was last fully used.
    used: u32,
    /// The time at which the window was last fully used.
    pub(super) stamp: u64,
    pub(super) last_sent: u64,
    /// The number of segments sent since the last validation.
    pub(super) sent: u32,
    /// Whether data waits for more window to fill a burst.
    pub(super) held_back: bool,
}

impl Usage {
    pub(super) fn new(now: u64) -> Self {
        Self {
            cwnd_limited: false,
            most_out: 0,
            end: 0,
            used: 0,
            stamp: now,
            last_sent: now,
            sent: 0,
            held_back: false,
        }
    }

    /// Returns whether the window limits the sender. In slow start half of the window is enough,
    /// since the window doubles in a round trip.
    pub(super) fn limited(&self, window: &Window) -> bool {
        self.cwnd_limited || (window.slow_start() && window.size < 2 * self.most_out)
    }
}

impl Sender {
    /// Handles the start of sending with nothing in flight.
    pub(super) fn restart(&mut self, now: u64) {
        let idle = now - self.usage.last_sent;
        self.control.on_restart(now, idle, self.delivery.app_limited > 0);
        if self.control.sets_own_window() || idle <= self.timeout().0 {
            return;
        }
        // RFC 5681 section 4.1, halved for each timeout of idle time (Linux, after RFC 2861).
        self.window.threshold = self.current_threshold();
        let least = INITIAL_WINDOW.min(self.window.size);
        let mut left = idle;
        while left > self.timeout().0 && self.window.size > least {
            left -= self.timeout().0;
            self.window.size /= 2;
        }
        self.window.size = self.window.size.max(least);
        (self.usage.used, self.usage.stamp) = (0, now);
    }

    /// Returns the slow-start threshold, at least three quarters of the window (RFC 2861 section
    /// 3).
    pub(super) fn current_threshold(&self) -> u32 {
        if matches!(self.state, State::Reducing | State::Recovery) {
            return self.window.threshold;
        }
        self.window.threshold.max(self.window.size / 4 * 3)
    }

    /// Updates the use of the window when nothing more can be sent, and shrinks an unused window.
    pub(super) fn validate_window(&mut self, now: u64) {
        let full = self.in_flight() >= self.window.size;
        let out = self.ring.len();
        let limited = full || std::mem::take(&mut self.usage.held_back);
        let all_sent = self.next == self.written && self.buffer.has_written_all();
        if !limited && all_sent && self.lost <= self.retransmitted {
            let count = self.delivery.delivered + u64::from(self.in_flight());
            self.delivery.app_limited = count.max(1);
        }
        if std::mem::take(&mut self.usage.sent) == 0 && !limited {
            return;
        }
        let usage = &mut self.usage;
        if self.una >= usage.end || limited || (!usage.cwnd_limited && out > usage.most_out) {
            (usage.cwnd_limited, usage.most_out, usage.end) = (limited, out, self.next);
        }
        if usage.limited(&self.window) {
            (usage.used, usage.stamp) = (0, now);
            return;
        }
        usage.used = usage.used.max(out);
        if now - usage.stamp < self.timeout().0 || self.control.sets_own_window() {
            return;
        }
        // A sender that waits for room in its buffer is not application-limited.
        if self.state == State::Open && !self.buffer.is_blocked() {
            let used = self.usage.used.max(INITIAL_WINDOW);
            if used < self.window.size {
                self.window.threshold = self.current_threshold();
                self.window.size = self.window.size.midpoint(used);
            }
            self.usage.used = 0;
        }
        self.usage.stamp = now;
    }
}
