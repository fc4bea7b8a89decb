//! The size of bursts and the time between them.
//!
//! Linux sizes super-packets, which are split into segments below TCP (`tcp_tso_autosize`), and
//! waits for enough window to fill one (`tcp_tso_should_defer`). Pacing delays the next burst.

use forebay_units::{Bytes, Rate};

use super::super::MSS;
use super::{INITIAL_WINDOW, Sender, State};

/// The largest super-packet in bytes (`GSO_MAX_SIZE`).
const SUPER_PACKET: u64 = 65_536;
/// A super-packet has the bytes that the pacing rate sends in 2^-10 s (`sk_pacing_shift`).
const PACE_SHIFT: u32 = 10;
/// The smallest super-packet in segments.
const LEAST_SEGMENTS: u32 = 2;
/// Super-packets are larger on short paths; the unit of the round-trip time is 2^9 us
/// (`tcp_tso_rtt_log`).
const SHORT_PATH: u32 = 9;
/// The idle time in nanoseconds after which a sender does not wait for a larger window.
const RECENT: u64 = 1_000_000;
/// The longest wait for a larger window in nanoseconds; it is also at most half of a round trip.
const NEAR: u64 = 1_000_000;
/// A sender does not wait if it may send this fraction of the window, a third
/// (`tcp_tso_win_divisor`).
const WORTH: u64 = 3;

/// The state of bursts and pacing.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// The segments of the current burst that are left to send.
    left: u32,
    /// Whether the next segment is the first of a super-packet.
    pub(super) begins: bool,
    /// The time from which pacing allows the next burst.
    at: u64,
    /// Whether pacing holds data back.
    blocked: bool,
    /// The number of data segments sent so far, up to the initial window.
    begun: u32,
}

impl Bursts {
    pub(super) fn deadline(&self) -> Option<u64> {
        self.blocked.then_some(self.at)
    }

    /// Returns the time until pacing allows the next burst, in nanoseconds.
    pub(super) fn backlog(&self, now: u64) -> u64 {
        self.at.saturating_sub(now)
    }

    /// Takes a segment of the current burst. Returns false if none is left.
    pub(super) fn take(&mut self) -> bool {
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }

    /// Returns whether segments of the current burst are left.
    pub(super) fn any_left(&self) -> bool {
        self.left > 0
    }

    pub(super) fn abandon(&mut self) {
        self.left = 0;
    }
}

impl Sender {
    /// Returns whether nothing may be sent now, because of the windows or pacing.
    pub(super) fn holds_back(&mut self, now: u64) -> bool {
        let work = self.has_work();
        self.bursts.blocked = work && self.bursts.at > now;
        !work || self.bursts.blocked
    }

    /// Paces a burst of `segments` with `bytes` of payload that is sent now.
    pub(super) fn pace(&mut self, now: u64, segments: u32, bytes: u64) {
        let before = self.bursts.at;
        self.bursts.at = before.max(now);
        let begun = self.bursts.begun;
        self.bursts.begun = (begun + segments).min(INITIAL_WINDOW);
        if begun < INITIAL_WINDOW {
            // The initial window is not paced (as in Linux and its `fq` qdisc).
            return;
        }
        if let Some(rate) = self.pace_rate() {
            let time = rate.time_for(Bytes(bytes)).0;
            // A late timer shortens the next gap by up to half.
            let credit = self.bursts.at - before;
            self.bursts.at += time - credit.min(time / 2);
        }
    }

    /// Returns the pacing rate of payload, or `None` if acknowledgements clock the sender.
    fn pace_rate(&self) -> Option<Rate> {
        let asked = self.control.pacing(&self.window, self.rtt.smoothed());
        asked.or_else(|| self.pacing.always.then(|| self.default_rate()))
    }

    /// Returns Linux's default pacing rate.
    pub(crate) fn default_rate(&self) -> Rate {
        Rate::from_bps(self.usual_rate().saturating_mul(8))
    }

    /// Returns Linux's default pacing rate in bytes per second.
    fn usual_rate(&self) -> u64 {
        let out = self.window.size.max(self.ring.len());
        self.window.default_pacing(out, self.rtt.smoothed(), MSS)
    }

    /// Starts a burst of new data. Returns false if the congestion window, the peer's window or the
    /// application allows none.
    pub(super) fn begin_burst(&mut self, now: u64) -> bool {
        let in_flight = self.in_flight();
        if !self.may_send_new() {
            return false;
        }
        let room = self.window.size - in_flight;
        let Some((end, is_last)) = self.buffer.front() else { return false };
        let bytes = end - self.next;
        let waiting = bytes.div_ceil(MSS);
        let allowed = self.edge - self.next;
        let offered = if allowed >= bytes { waiting } else { allowed / MSS };
        let most = self.super_packet();
        if waiting > 1 && self.defers(now, room, bytes, is_last, most) {
            return false;
        }
        if self.ring.len() == 0 {
            self.restart(now);
        }
        // A window has at least two bursts.
        let room = (self.window.size - in_flight).min((self.window.size / 2).max(1));
        let segments = u64::from(room.min(most)).min(offered).max(1) as u32;
        self.pace(now, segments, (u64::from(segments) * MSS).min(bytes));
        self.begin_super_packet(u64::from(segments));
        self.bursts.left = segments;
        true
    }

    /// Begins a super-packet of `segments`, which is split from the next one of the buffer.
    pub(super) fn begin_super_packet(&mut self, segments: u64) {
        self.bursts.begins = true;
        if self.buffer.front().is_some_and(|(end, _)| self.next + segments * MSS < end) {
            self.buffer.on_cut(1);
        }
    }

    /// Returns the segments of a full super-packet.
    fn super_packet(&self) -> u32 {
        let asked = self.control.burst(&self.window, self.rtt.smoothed().max(1));
        let segments = asked.unwrap_or_else(|| self.usual_burst());
        self.pacing.largest_burst.map_or(segments, |most| segments.min(most))
    }

    fn usual_burst(&self) -> u32 {
        let mut bytes = self.usual_rate() >> PACE_SHIFT;
        let short = (self.rtt.min().unwrap_or(u64::MAX) / 1000) >> SHORT_PATH;
        if short < 32 {
            bytes += SUPER_PACKET >> short;
        }
        (bytes.min(SUPER_PACKET) / MSS).max(u64::from(LEAST_SEGMENTS)) as u32
    }

    /// Returns whether to wait for acknowledgements that allow a larger burst than `room` segments.
    ///
    /// The super-packet has `bytes`, and may become longer if it `is_last`.
    fn defers(&mut self, now: u64, room: u32, bytes: u64, is_last: bool, most: u32) -> bool {
        let bursting = now <= self.bursts.at.saturating_add(RECENT);
        if self.state >= State::Recovery || !bursting {
            return false;
        }
        let (cwnd, offered) = (u64::from(room) * MSS, self.edge - self.next);
        let limit = cwnd.min(offered);
        if limit >= u64::from(most) * MSS || !is_last && limit >= bytes {
            return false;
        }
        let window = (self.edge - self.una).min(u64::from(self.window.size) * MSS);
        if limit >= window / WORTH {
            return false;
        }
        // The next acknowledgement must be expected soon.
        let srtt = self.rtt.smoothed();
        let near = |head: u64| head + srtt <= now + (srtt / 2).min(NEAR);
        if !self.ring.front().is_some_and(|head| near(head.time)) {
            return false;
        }
        self.usage.held_back |= cwnd < offered && cwnd <= bytes;
        true
    }
}
