//! The send buffer: what the application has written and the peer has not acknowledged. Linux bounds
//! it (`sk_sndbuf`) and lets it grow with the window, so a backlogged application is blocked for most
//! of its life, and during a long repair, when nothing leaves the buffer, there may be nothing to
//! send. It is also what says where super-packets end, and with them the push flag goes.

use std::collections::VecDeque;

use super::super::MSS;
use super::Sender;

/// Of a super-packet beside its payload: its descriptors and the room for its headers
/// (`SKB_TRUESIZE` of `MAX_TCP_HEADER`).
const OVERHEAD: u64 = 832;
/// What the buffer grows by for each segment of the window, times two or, for BBR, three: a segment
/// in memory of its own (`tcp_sndbuf_expand`).
const PER_SEGMENT: u64 = 2_304;
/// The bounds that the laboratory's hosts have (`tcp_wmem`).
const FIRST: u64 = 65_536;
const LARGEST: u64 = 32 << 20;
/// A device's largest super-packet less room for headers, in whole segments.
const SUPER_PACKET: u64 = 65_279 / MSS * MSS;
/// What the laboratory's programs write in one call.
const CALL: u64 = 65_536;

/// A super-packet that is not wholly sent.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    end: u64,
    /// The application has no more for now: its last segment is pushed.
    push: bool,
}

#[derive(Debug)]
pub(super) struct Buffer {
    limit: u64,
    /// What the application has to write, and of that in its present call.
    backlog: u64,
    call: u64,
    /// Something of the present call is written.
    copied: bool,
    /// The application waits for room.
    blocked: bool,
    /// There may be room: something was acknowledged since this was last looked at.
    look: bool,
    /// At most as many as full ones have room in the largest buffer, and one.
    unsent: VecDeque<Unsent>,
    /// Super-packets in the buffer, sent or not.
    held: u32,
    /// Up to where the application was last said to have pushed.
    pushed: u64,
    /// The largest window that the peer ever offered.
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
            look: false,
            unsent: VecDeque::new(),
            held: 0,
            pushed: 0,
            offered: 0,
        }
    }

    /// The application has `bytes` more to write.
    pub(super) fn offer(&mut self, bytes: u64) {
        self.backlog = self.backlog.saturating_add(bytes);
    }

    /// The application takes back what was not sent.
    pub(super) fn clear(&mut self) {
        (self.backlog, self.call) = (0, 0);
        self.unsent.clear();
    }

    /// The application has nothing that is not in the buffer.
    pub(super) fn takes_all(&self) -> bool {
        self.backlog == 0
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// An acknowledgement came that offers `window` bytes.
    pub(super) fn on_ack(&mut self, window: u64) {
        self.offered = self.offered.max(window);
        self.look = true;
    }

    /// A super-packet was cut in two, or `n` times so.
    pub(super) fn on_cut(&mut self, n: u32) {
        self.held += n;
    }

    /// A super-packet is gone, or has become part of another.
    pub(super) fn on_gone(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// Where the super-packet ends that is sent next, and whether it is the last.
    pub(super) fn front(&self) -> Option<(u64, bool)> {
        self.unsent.front().map(|u| (u.end, self.unsent.len() == 1))
    }

    /// All up to `next` is sent; whether its last segment is pushed.
    pub(super) fn on_sent(&mut self, next: u64) -> bool {
        let done = self.unsent.front().is_some_and(|u| u.end <= next);
        done && self.unsent.pop_front().is_some_and(|u| u.push)
    }

    /// Bytes of memory that what is between `una` and `written` takes.
    pub(super) fn taken(&self, una: u64, written: u64) -> u64 {
        written - una + OVERHEAD * u64::from(self.held)
    }

    /// The size of a super-packet: half the peer's window at most.
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
    /// Has the application write on, up to where what it wrote is to be sent; false if it has nothing
    /// or is blocked. To be asked when nothing more can be sent of what there is.
    pub(super) fn refill(&mut self, now: u64) -> bool {
        let look = std::mem::take(&mut self.buffer.look);
        if self.buffer.backlog == 0 {
            return false;
        }
        if self.buffer.blocked {
            if !look || !self.makes_room(now) {
                return false;
            }
            self.buffer.blocked = false;
        }
        self.write_some()
    }

    /// Whether a blocked application may go on: when a third of the buffer is free. It grows only
    /// while the window is not full, which is when it is what limits the sender.
    fn makes_room(&mut self, now: u64) -> bool {
        if self.in_flight() < self.window.size {
            let times = self.control.buffered_windows();
            let wanted = times * u64::from(self.window.size) * PER_SEGMENT;
            self.buffer.limit = self.buffer.limit.max(wanted.min(LARGEST));
            self.usage.stamp = now;
        }
        let taken = self.buffer.taken(self.una, self.written);
        taken + taken / 2 <= self.buffer.limit
    }

    /// To the end of the application's call, to where half the peer's window was written without a
    /// push, or to the buffer's end.
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
