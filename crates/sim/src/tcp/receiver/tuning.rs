//! How large a window to offer. The memory for what came grows with what the application reads
//! (Linux's dynamic right-sizing, after Fisk and Feng, LANL 2001); the window follows it by twice
//! what comes, and what waits behind a gap takes its share of the memory until the gap is filled.

use forebay_units::Nanos;

use super::super::{MSS, TICK};

/// Memory before it is tuned (`tcp_rmem`).
const BUFFER_FIRST: u64 = 131_072;
/// What a full segment takes of it, with a buffer of its own and its descriptors.
const SEGMENT: u64 = 2_304;
/// Of memory, so many 256ths are window: a segment's payload of what it takes (`scaling_ratio`).
const RATIO: u64 = (MSS << 8) / SEGMENT;
/// The first window: half of the first memory,
const WINDOW_FIRST: u64 = BUFFER_FIRST / 2;
/// of which a segment is kept back in the next.
const CLAMP_FIRST: u64 = WINDOW_FIRST - MSS;
/// Windows are told in these units: the window scale of the largest memory.
const UNIT: u64 = 1 << 10;
/// Shorter segments say nothing of how well memory is used.
const LEAST: u64 = 128;

/// The receiver's memory and window.
#[derive(Debug)]
pub(super) struct Tuning {
    buffer: u64,
    largest: u64,
    /// The most to offer with this memory,
    clamp: u64,
    /// and how far the window has come (`rcv_ssthresh`).
    reached: u64,
    /// The round-trip time as a receiver sees it, zero before the first sample.
    pub(super) rtt: u64,
    /// The latest echo that was measured.
    measured: u64,
    since: Nanos,
    from: u64,
    space: u64,
}

impl Tuning {
    /// With at most `largest` bytes of memory.
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

    /// The window of the handshake.
    pub(super) const fn first_window() -> u64 {
        WINDOW_FIRST
    }

    /// A segment came that answers the timestamp `echo`. An echo that was seen before measures how
    /// long the peer paused.
    pub(super) fn on_echo(&mut self, now: Nanos, echo: u64) {
        if echo > self.measured {
            self.measured = echo;
            let rtt = (now.0 / TICK).saturating_sub(echo / TICK).max(1) * TICK;
            self.rtt = if self.rtt == 0 { rtt } else { (self.rtt * 7 + rtt) / 8 };
        }
    }

    /// A segment of `len` bytes came, and `held` bytes are not read; whether the window grew.
    pub(super) fn on_data(&mut self, len: u64, held: u64) -> bool {
        if len == MSS {
            // The first full segment tells what share of memory is payload.
            self.clamp = self.clamp.max(window(self.buffer));
        }
        let most = self.clamp.min(window(self.free(held)));
        let grows = len >= LEAST && most > self.reached;
        if grows {
            self.reached = most.min(self.reached + 2 * MSS);
        }
        grows
    }

    fn free(&self, behind: u64) -> u64 {
        self.buffer.saturating_sub(behind * SEGMENT / MSS)
    }

    /// The window to offer, and whether memory is so scarce that the peer need not hear at once.
    pub(super) fn window(&self, behind: u64) -> (u64, bool) {
        let mut free = window(self.free(behind));
        let scarce = free < self.clamp / 2;
        if scarce {
            free = free / UNIT * UNIT;
            if free < window(self.buffer) / 16 || free < MSS {
                return (0, true);
            }
        }
        (free.min(self.reached).next_multiple_of(UNIT), scarce)
    }

    /// The application reads on from `before` to `end`. Linux looks when it has read the first
    /// segment, and does not count as much as still lies there: what a filled gap sets free is no
    /// sign of a higher rate.
    pub(super) fn on_read(&mut self, now: Nanos, before: u64, end: u64) {
        if self.rtt == 0 || now.saturating_sub(self.since).0 < self.rtt {
            return;
        }
        let read = end.min(before + MSS);
        let copied = (read - self.from).saturating_sub(end - read);
        if copied > self.space {
            // Twice what came, for slow start doubles it, and as much again as it has grown.
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

/// How much window `memory` is good for.
fn window(memory: u64) -> u64 {
    (memory * RATIO) >> 8
}
