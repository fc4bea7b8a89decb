//! Whether the window is used: what it may grow by, and what becomes of it when it is not
//! (Linux's form of RFC 2861 and RFC 7661), or when nothing was sent for long.

use super::{INITIAL_WINDOW, Sender, State, Window};

#[derive(Debug)]
pub(super) struct Usage {
    /// The window kept data back in the present round trip.
    cwnd_limited: bool,
    /// The most that was out in it,
    most_out: u32,
    /// and where it ends.
    end: u64,
    /// The most that was out since the window was last in full use, and when that was.
    used: u32,
    pub(super) stamp: u64,
    pub(super) last_sent: u64,
    /// Segments sent since this was last looked at.
    pub(super) sent: u32,
    /// Data waits for more window to be sent in one burst.
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

    /// In slow start, half the window in use is use enough: it doubles in a round trip.
    pub(super) fn limited(&self, window: &Window) -> bool {
        self.cwnd_limited || (window.slow_start() && window.size < 2 * self.most_out)
    }
}

impl Sender {
    /// Nothing is in flight and sending begins.
    pub(super) fn restart(&mut self, now: u64) {
        let idle = now - self.usage.last_sent;
        self.control.on_restart(now, idle, self.delivery.app_limited > 0);
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
        (self.usage.used, self.usage.stamp) = (0, now);
    }

    /// Three quarters of what was in use keep it from growing all anew (RFC 2861 section 3).
    pub(super) fn current_threshold(&self) -> u32 {
        if matches!(self.state, State::Reducing | State::Recovery) {
            return self.window.threshold;
        }
        self.window.threshold.max(self.window.size / 4 * 3)
    }

    /// Nothing more goes now: was it the window or the application that limits what is out?
    pub(super) fn judge_use(&mut self, now: u64) {
        let full = self.in_flight() >= self.window.size;
        let out = self.ring.len();
        let limited = full || std::mem::take(&mut self.usage.held_back);
        let all_sent = self.next == self.written && self.buffer.takes_all();
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
        if now - usage.stamp < self.timeout().0 || self.control.is_its_own() {
            return;
        }
        // One that waits for room in its buffer would send more.
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
