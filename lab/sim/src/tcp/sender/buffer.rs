//! The send buffer: the data that the application has written and the peer has not acknowledged.
//!
//! Linux bounds the buffer (`sk_sndbuf`) and lets it grow with the window. A backlogged application
//! is blocked most of the time. During a long repair nothing leaves the buffer, so there may be no
//! new data to send. The buffer also determines where super-packets end and which segments are
//! pushed.

use std::collections::VecDeque;

use super::super::MSS;
use super::Sender;

/// The memory of a super-packet without its payload in bytes: descriptors and room for headers
/// (`SKB_TRUESIZE` of `MAX_TCP_HEADER`).
const OVERHEAD: u64 = 832;
/// The memory of a full segment in bytes. The buffer grows to two windows of such segments, or
/// three for BBR (`tcp_sndbuf_expand`).
const PER_SEGMENT: u64 = 2_304;
/// The initial size of the buffer on the laboratory's hosts (`tcp_wmem`).
const FIRST: u64 = 65_536;
/// The largest size of the buffer on the laboratory's hosts (`tcp_wmem`).
const MAX_BUFFER: u64 = 32 << 20;
/// The payload of a device's largest super-packet, without room for headers, in whole segments.
const SUPER_PACKET: u64 = 65_279 / MSS * MSS;
/// The bytes that the laboratory's programs write in one call.
const CALL: u64 = 65_536;

/// A super-packet that is not completely sent.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    end: u64,
    /// Whether its last segment is pushed, since the application has no more data for now.
    push: bool,
}

/// The state of the send buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    limit: u64,
    /// The bytes that the application has yet to write.
    backlog: u64,
    /// The bytes left of the application's current call.
    call: u64,
    /// Whether part of the current call has been written.
    copied: bool,
    /// Whether the application waits for room.
    blocked: bool,
    /// Whether data was acknowledged since the last check for room.
    may_have_room: bool,
    /// The unsent super-packets. The buffer bounds their number.
    unsent: VecDeque<Unsent>,
    /// The number of super-packets in the buffer, sent or not.
    held: u32,
    /// The end of the data that was last marked for a push.
    pushed: u64,
    /// The largest window that the peer has offered.
    offered: u64,
}

impl Buffer {
    pub(super) fn new() -> Self {
        Self {
            limit: FIRST,
            backlog: 0,
            call: 0,
            copied: false,
            blocked: false,
            may_have_room: false,
            unsent: VecDeque::new(),
            held: 0,
            pushed: 0,
            offered: 0,
        }
    }

    /// Adds `bytes` that the application has to write.
    pub(super) fn offer(&mut self, bytes: u64) {
        self.backlog = self.backlog.saturating_add(bytes);
    }

    /// Discards the data that was not sent.
    pub(super) fn clear(&mut self) {
        (self.backlog, self.call) = (0, 0);
        self.unsent.clear();
    }

    /// Returns whether the application has written all of its data.
    pub(super) fn has_written_all(&self) -> bool {
        self.backlog == 0
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Handles an acknowledgement that offers a window of `window` bytes.
    pub(super) fn on_ack(&mut self, window: u64) {
        self.offered = self.offered.max(window);
        self.may_have_room = true;
    }

    /// Records that super-packets were split `n` times.
    pub(super) fn on_cut(&mut self, n: u32) {
        self.held += n;
    }

    /// Records that a super-packet was freed or merged with another.
    pub(super) fn on_gone(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// Returns the end of the next super-packet to send, and whether it is the last one.
    pub(super) fn front(&self) -> Option<(u64, bool)> {
        self.unsent.front().map(|u| (u.end, self.unsent.len() == 1))
    }

    /// Records that all data up to `next` is sent. Returns whether its last segment is pushed.
    pub(super) fn on_sent(&mut self, next: u64) -> bool {
        let done = self.unsent.front().is_some_and(|u| u.end <= next);
        done && self.unsent.pop_front().is_some_and(|u| u.push)
    }

    /// Returns the memory in bytes of the data from `una` to `written`.
    pub(super) fn taken(&self, una: u64, written: u64) -> u64 {
        written - una + OVERHEAD * u64::from(self.held)
    }

    /// Returns the size of a new super-packet, at most half of the peer's window.
    fn goal(&self) -> u64 {
        SUPER_PACKET.min(self.offered.max(FIRST) / 2 / MSS * MSS)
    }

    fn push(&mut self, written: u64) {
        if let Some(last) = self.unsent.back_mut() {
            (last.push, self.pushed) = (true, written);
        }
    }
}

impl Sender {
    /// Lets the application write until data is to be sent. Returns false if it has no data or is
    /// blocked. Call this when no data of the buffer can be sent.
    pub(super) fn refill(&mut self, now: u64) -> bool {
        let may_have_room = std::mem::take(&mut self.buffer.may_have_room);
        if self.buffer.backlog == 0 {
            return false;
        }
        if self.buffer.blocked {
            if !may_have_room || !self.makes_room(now) {
                return false;
            }
            self.buffer.blocked = false;
        }
        self.write_some()
    }

    /// Returns whether a blocked application may continue, which needs a third of the buffer free.
    /// The buffer grows only while the window is not full, since it then limits the sender.
    fn makes_room(&mut self, now: u64) -> bool {
        if self.in_flight() < self.window.size {
            let times = self.control.buffered_windows();
            let wanted = times * u64::from(self.window.size) * PER_SEGMENT;
            self.buffer.limit = self.buffer.limit.max(wanted.min(MAX_BUFFER));
            self.usage.stamp = now;
        }
        let taken = self.buffer.taken(self.una, self.written);
        taken + taken / 2 <= self.buffer.limit
    }

    /// Writes to the end of the application's call, to the end of the buffer, or until half of the
    /// peer's window was written without a push.
    fn write_some(&mut self) -> bool {
        let (next, before) = (self.next, self.written);
        let buffer = &mut self.buffer;
        let goal = buffer.goal();
        while buffer.backlog > 0 {
            if buffer.call == 0 {
                (buffer.call, buffer.copied) = (CALL.min(buffer.backlog), false);
            }
            let start = match buffer.unsent.len() {
                0 | 1 => next,
                n => buffer.unsent[n - 2].end,
            };
            let mut room = buffer.unsent.back().map_or(0, |u| goal.saturating_sub(u.end - start));
            if room == 0 {
                if buffer.taken(self.una, self.written) >= buffer.limit {
                    buffer.blocked = true;
                    if buffer.copied {
                        buffer.push(self.written);
                    }
                    break;
                }
                buffer.unsent.push_back(Unsent { end: self.written, push: false });
                buffer.held += 1;
                room = goal;
            }
            let bytes = room.min(buffer.call);
            self.written += bytes;
            buffer.backlog -= bytes;
            buffer.call -= bytes;
            if let Some(last) = buffer.unsent.back_mut() {
                last.end = self.written;
                last.push &= std::mem::replace(&mut buffer.copied, true);
            }
            let ends = buffer.call == 0;
            if ends || bytes == room && self.written > buffer.pushed + buffer.offered / 2 {
                buffer.push(self.written);
                break;
            }
        }
        self.written > before
    }
}
