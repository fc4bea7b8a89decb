//! How large a window to offer (Linux's dynamic right-sizing, after Fisk and Feng, LANL 2001).

use forebay_units::Nanos;

use super::super::MSS;

/// The window before it is tuned: half of the 128 KiB that Linux's buffer starts with.
const WINDOW_FIRST: u64 = 65_536;

/// Grows the window with what the application reads in a round trip.
#[derive(Debug)]
pub(super) struct Tuning {
    pub(super) window: u64,
    largest: u64,
    /// The round-trip time as a receiver sees it, zero before the first sample.
    pub(super) rtt: u64,
    /// The latest echo that was measured.
    measured: u64,
    since: Nanos,
    from: u64,
    space: u64,
}

impl Tuning {
    pub(super) fn new(now: Nanos, largest: u64) -> Self {
        Self {
            window: WINDOW_FIRST.min(largest),
            largest,
            rtt: 0,
            measured: 0,
            since: now,
            from: 0,
            space: 10 * MSS,
        }
    }

    /// A segment came that answers the timestamp `echo`. An echo that was seen before measures how
    /// long the peer paused.
    pub(super) fn on_echo(&mut self, now: Nanos, echo: u64) {
        if echo > self.measured {
            self.measured = echo;
            let rtt = now.0.saturating_sub(echo).max(1);
            self.rtt = if self.rtt == 0 { rtt } else { (self.rtt * 7 + rtt) / 8 };
        }
    }

    /// The application has read all up to `read`.
    pub(super) fn on_read(&mut self, now: Nanos, read: u64) {
        if self.rtt == 0 || now.saturating_sub(self.since).0 < self.rtt {
            return;
        }
        let copied = read - self.from;
        if copied > self.space {
            // Twice what came, for slow start doubles it, and as much again as it has grown.
            let base = 2 * copied + 16 * MSS;
            let growth = base * (copied - self.space) / self.space.max(1);
            self.window = self.window.max((base + 2 * growth).min(self.largest));
            self.space = copied;
        }
        self.since = now;
        self.from = read;
    }
}
