//! Tuning of the receive buffer and window, as in Linux.
//!
//! The buffer grows with the data that the application reads (dynamic right-sizing, after Fisk and
//! Feng, LANL 2001). The window follows by two segments per arriving segment. Data after a gap
//! takes its share of the buffer until the gap is filled.

use forebay_units::Nanos;

use super::super::{MSS, TICK, WINDOW_SCALE};

/// The initial buffer in bytes (`tcp_rmem`).
const BUFFER_FIRST: u64 = 131_072;
/// The memory of a full segment in bytes, with its buffer and descriptors.
const SEGMENT: u64 = 2_304;
/// The share of the buffer that is window, in 256ths: a segment's payload of its memory
/// (`scaling_ratio`).
const RATIO: u64 = (MSS << 8) / SEGMENT;
/// The initial window: half of the initial buffer.
const WINDOW_FIRST: u64 = BUFFER_FIRST / 2;
/// The initial limit of the window, one segment less.
const CLAMP_FIRST: u64 = WINDOW_FIRST - MSS;
/// The unit of windows on the wire.
const UNIT: u64 = 1 << WINDOW_SCALE;
/// The length in bytes below which a segment does not enlarge the window.
const LEAST: u64 = 128;

/// The receive buffer and window.
#[derive(Debug)]
pub(super) struct Tuning {
    buffer: u64,
    largest: u64,
    /// The largest window with this buffer.
    clamp: u64,
    /// The current limit of the window (`rcv_ssthresh`).
    reached: u64,
    /// The receiver's estimate of the round-trip time, zero before the first sample.
    pub(super) rtt: u64,
    /// The latest echoed timestamp that was used.
    measured: u64,
    since: Nanos,
    from: u64,
    space: u64,
}

impl Tuning {
    /// Creates a buffer of at most `largest` bytes.
    pub(super) fn new(now: Nanos, largest: u64) -> Self {
        Self {
            buffer: BUFFER_FIRST.min(largest),
            largest,
            clamp: CLAMP_FIRST,
            reached: CLAMP_FIRST,
            rtt: 0,
            measured: 0,
            since: now,
            from: 0,
            space: 10 * MSS,
        }
    }

    /// Returns the window of the handshake.
    pub(super) const fn first_window() -> u64 {
        WINDOW_FIRST
    }

    /// Measures the round-trip time by the echoed timestamp of a segment. A repeated echo is
    /// ignored, since it includes a pause of the peer.
    pub(super) fn on_echo(&mut self, now: Nanos, echo: u64) {
        if echo > self.measured {
            self.measured = echo;
            let rtt = (now.0 / TICK).saturating_sub(echo / TICK).max(1) * TICK;
            self.rtt = if self.rtt == 0 { rtt } else { (self.rtt * 7 + rtt) / 8 };
        }
    }

    /// Handles a segment of `len` bytes while `held` bytes are unread. Returns whether the window
    /// grew.
    pub(super) fn on_data(&mut self, len: u64, held: u64) -> bool {
        if len == MSS {
            // The first full segment determines the share of payload in the buffer.
            self.clamp = self.clamp.max(window(self.buffer));
        }
        let most = self.clamp.min(window(self.free(held)));
        let grows = len >= LEAST && most > self.reached;
        if grows {
            self.reached = most.min(self.reached + 2 * MSS);
        }
        grows
    }

    fn free(&self, out_of_order: u64) -> u64 {
        self.buffer.saturating_sub(out_of_order * SEGMENT / MSS)
    }

    /// Returns the window to offer, and whether memory is so scarce that immediate acknowledgements
    /// end.
    pub(super) fn window(&self, out_of_order: u64) -> (u64, bool) {
        let mut free = window(self.free(out_of_order));
        let scarce = free < self.clamp / 2;
        if scarce {
            free = free / UNIT * UNIT;
            if free < window(self.buffer) / 16 || free < MSS {
                return (0, true);
            }
        }
        (free.min(self.reached).next_multiple_of(UNIT), scarce)
    }

    /// Adapts the buffer after the application read from `before` to `end`.
    ///
    /// Linux does this after the first segment was read, and subtracts the data that is still
    /// unread: data released by a filled gap does not indicate a higher rate.
    pub(super) fn on_read(&mut self, now: Nanos, before: u64, end: u64) {
        if self.rtt == 0 || now.saturating_sub(self.since).0 < self.rtt {
            return;
        }
        let read = end.min(before + MSS);
        let copied = (read - self.from).saturating_sub(end - read);
        if copied > self.space {
            // Twice the data read, since slow start doubles it, and more by its relative growth.
            let base = 2 * copied + 16 * MSS;
            let growth = base * (copied - self.space) / self.space.max(1);
            let buffer = (((base + 2 * growth) << 8) / RATIO).min(self.largest);
            if buffer > self.buffer {
                (self.buffer, self.clamp) = (buffer, window(buffer));
            }
            self.space = copied;
        }
        self.since = now;
        self.from = read;
    }
}

/// Returns the window for `memory` bytes of buffer.
fn window(memory: u64) -> u64 {
    (memory * RATIO) >> 8
}
