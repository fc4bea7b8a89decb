//! One direction of a connection: its data, and what the receiver says of it.

use std::collections::VecDeque;

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::ace::Ace;
use super::segment::{Counters, Flags, Segment, Timestamps};

/// The most segments of a direction that wait for their acknowledgement. Beyond it the oldest one
/// gives no round trip.
pub(super) const MAX_OUTSTANDING: usize = 4_096;
/// The most gaps between segments that are remembered.
const MAX_GAPS: usize = 256;
/// The payload of a segment whose connection does not say how large they are: an Ethernet frame
/// with IPv4 and timestamps.
pub(super) const SEGMENT: u32 = 1_448;
/// The largest payload of an Ethernet frame.
const MAX_PLAIN: u32 = 1_460;
/// Two equal packets within this time are one packet that was captured twice.
const TWICE: Nanos = Nanos::from_millis(1);
/// The modulus of the counters of the AccECN option.
const COUNTER: u32 = 1 << 24;

/// Numbers by ECN codepoint, of packets or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Codepoints {
    /// The number of Not-ECT.
    pub not_ect: u64,
    /// The number of ECT(0).
    pub ect0: u64,
    /// The number of ECT(1).
    pub ect1: u64,
    /// The number of CE.
    pub ce: u64,
}

impl Codepoints {
    pub(super) fn of(&mut self, ecn: Ecn) -> &mut u64 {
        match ecn {
            Ecn::NotEct => &mut self.not_ect,
            Ecn::Ect0 => &mut self.ect0,
            Ecn::Ect1 => &mut self.ect1,
            Ecn::Ce => &mut self.ce,
        }
    }

    /// The number of all.
    pub fn all(&self) -> u64 {
        self.not_ect + self.ect0 + self.ect1 + self.ce
    }
}

/// A data segment at the place of the capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) at: Nanos,
    /// The number of its first byte, beyond 32 bits.
    pub(super) seq: i64,
    pub(super) len: u32,
    pub(super) ecn: Ecn,
    /// The sender's clock, if the segment has timestamps.
    pub(super) clock: Option<u32>,
    /// Whether it has bytes that were not seen before.
    pub(super) is_new: bool,
}

/// An acknowledgement that covers new data or echoes marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    pub(super) at: Nanos,
    /// The receiver's clock, if the segment has timestamps.
    pub(super) clock: Option<u32>,
    /// The time since the last segment that it covers passed.
    pub(super) rtt: Option<Nanos>,
    /// The least number of new marks by the ACE field.
    pub(super) marks: u8,
    /// Whether the segment has the flag ECE.
    pub(super) ece: bool,
}

/// What makes two acknowledgements within [`TWICE`] one that was captured twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AckIdentity {
    id: u32,
    seq: u32,
    ack: u32,
    flags: Flags,
    payload: u32,
    timestamps: Option<Timestamps>,
    counters: Option<Counters>,
}

impl AckIdentity {
    fn of(segment: &Segment) -> Self {
        let Segment { id, seq, ack, flags, payload, timestamps, counters, .. } = *segment;
        Self { id, seq, ack, flags, payload, timestamps, counters }
    }
}

/// A segment that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: i64,
    end: i64,
    at: Nanos,
    id: u32,
    clock: Option<u32>,
    again: bool,
}

/// What a receiver's flag ECE does (RFC 3168 section 6.1.3; RFC 8257 section 3.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EceEcho {
    is_on: bool,
    cwr_came: bool,
    /// The acknowledgements with the flag.
    pub(super) acks: u64,
    /// How often the flag came.
    pub(super) episodes: u64,
    /// How often it went without a CWR of the sender.
    pub(super) cleared_alone: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Half {
    /// The number of the next new byte, beyond 32 bits; `None` before the first segment.
    next: Option<i64>,
    acked: Option<i64>,
    /// The end of the last retransmission: no round trip is known of what it fills.
    filled: i64,
    outstanding: VecDeque<Sent>,
    gaps: VecDeque<(i64, i64)>,
    /// The payload of a segment, if the handshake says it.
    pub(super) segment: Option<u32>,
    /// Data segments by codepoint, retransmissions too.
    pub(super) segments: Codepoints,
    /// Data segments without retransmissions.
    pub(super) new: Codepoints,
    pub(super) bytes: Codepoints,
    /// Marked segments that are acknowledged, and those that are not.
    pub(super) marks_acked: u64,
    marks_waiting: VecDeque<(i64, u64)>,
    /// New segments since the last one with ECT(1) or, behind one, CE.
    pub(super) since_ect1: Codepoints,
    pub(super) retransmitted: u64,
    pub(super) twice: u64,
    pub(super) acked_bytes: u64,
    pub(super) ace: Ace,
    /// Whether an acknowledgement had the flag AE, which classic ECN does not use.
    pub(super) has_ae: bool,
    pub(super) ece: EceEcho,
    pub(super) cwr: u64,
    counters: Option<Counters>,
    /// The bytes that the receiver's AccECN option reports since `reported_from`.
    pub(super) reported: Option<Codepoints>,
    /// The bytes by codepoint at the place of the capture when the first option came.
    pub(super) reported_from: Codepoints,
    last_ack_clock: Option<u32>,
    last_ack: Option<(AckIdentity, Nanos)>,
    pub(super) data: Vec<Data>,
    pub(super) acks: Vec<Ack>,
    /// Segments that gave no round trip because too many waited.
    pub(super) forgotten: u64,
}

impl Half {
    /// Returns the number beyond 32 bits that is nearest to the next new byte.
    fn extend(&mut self, seq: u32) -> i64 {
        let near = *self.next.get_or_insert_with(|| seq.into());
        near + i64::from(seq.wrapping_sub(near as u32) as i32)
    }

    /// Takes the SYN or SYN/ACK of the sender.
    pub(super) fn on_syn(&mut self, segment: &Segment) {
        if self.next.is_none() {
            self.next = Some(i64::from(segment.seq) + 1);
            self.acked = self.next;
        }
    }

    /// The number of segments in this many bytes.
    pub(super) fn count(&self, bytes: u64) -> u64 {
        match self.segment {
            Some(size) => bytes.div_ceil(u64::from(size.max(1))),
            None if bytes <= MAX_PLAIN.into() => bytes.min(1),
            None => bytes.div_ceil(SEGMENT.into()),
        }
    }

    /// Takes a segment of the sender. `room` is the number of records that may still be kept.
    pub(super) fn on_segment(&mut self, segment: &Segment, room: &mut usize) {
        if segment.payload == 0 {
            self.on_cwr(segment);
            return;
        }
        let start = self.extend(segment.seq);
        let end = start + i64::from(segment.payload);
        let next = self.next.unwrap_or(start);
        let clock = segment.timestamps.map(|t| t.value);
        let is_new = end > next;
        if !is_new && self.is_twice(segment, start, end, clock) {
            self.twice += 1;
            return;
        }
        self.on_cwr(segment);
        let count = self.count(segment.payload.into());
        *self.segments.of(segment.ecn) += count;
        *self.bytes.of(segment.ecn) += u64::from(segment.payload);
        if segment.ecn == Ecn::Ce {
            if self.marks_waiting.len() >= MAX_OUTSTANDING {
                self.marks_waiting.pop_front();
            }
            self.marks_waiting.push_back((end, count));
        }
        if is_new {
            self.on_new(segment, (start, end), count);
        } else {
            self.on_old(start, end, count);
        }
        if let Some(left) = room.checked_sub(1) {
            *room = left;
            let (at, ecn, len) = (segment.at, segment.ecn, segment.payload);
            self.data.push(Data { at, seq: start, len, ecn, clock, is_new });
        }
    }

    fn on_cwr(&mut self, segment: &Segment) {
        if segment.flags.cwr() {
            self.cwr += 1;
            self.ece.cwr_came = true;
        }
    }

    fn on_new(&mut self, segment: &Segment, (start, end): (i64, i64), count: u64) {
        let next = self.next.unwrap_or(start);
        if start > next {
            if self.gaps.len() >= MAX_GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back((next, start));
        }
        self.next = Some(end);
        *self.new.of(segment.ecn) += count;
        if segment.ecn == Ecn::Ect1 {
            self.since_ect1 = Codepoints::default();
        } else {
            *self.since_ect1.of(segment.ecn) += count;
        }
        if self.outstanding.len() >= MAX_OUTSTANDING {
            self.outstanding.pop_front();
            self.forgotten += 1;
        }
        let clock = segment.timestamps.map(|t| t.value);
        let (at, id) = (segment.at, segment.id);
        self.outstanding.push_back(Sent { start, end, at, id, clock, again: false });
    }

    /// Takes a segment whose bytes, or later ones, were seen before.
    fn on_old(&mut self, start: i64, end: i64, count: u64) {
        self.filled = self.filled.max(end);
        match self.gaps.iter().position(|gap| gap.0 <= start && start < gap.1) {
            // What is new here was lost before, or overtaken.
            Some(n) => {
                let (from, to) = self.gaps[n];
                match (from < start, end < to) {
                    (false, false) => drop(self.gaps.remove(n)),
                    (false, true) => self.gaps[n].0 = end,
                    (true, _) => self.gaps[n].1 = start,
                }
            }
            None => self.retransmitted += count,
        }
        let from = self.outstanding.partition_point(|s| s.end <= start);
        for sent in self.outstanding.range_mut(from..).take_while(|s| s.start < end) {
            sent.again = true;
        }
    }

    /// Whether the same packet was captured a moment ago, as on two interfaces of a bridge.
    fn is_twice(&self, segment: &Segment, start: i64, end: i64, clock: Option<u32>) -> bool {
        let found = self.outstanding.partition_point(|s| s.end < end);
        self.outstanding.get(found).is_some_and(|s| {
            (s.start, s.end, s.id, s.clock) == (start, end, segment.id, clock)
                && segment.at.saturating_sub(s.at) < TWICE
        })
    }

    /// Takes a segment of the receiver. `ace` is false where the flags are those of the handshake.
    pub(super) fn on_ack(&mut self, segment: &Segment, ace: bool, room: &mut usize) {
        let this = (AckIdentity::of(segment), segment.at);
        let last = self.last_ack.replace(this);
        if last.is_some_and(|last| last.0 == this.0 && this.1.saturating_sub(last.1) < TWICE) {
            return;
        }
        let ack = self.extend(segment.ack);
        let clock = segment.timestamps.map(|t| t.value);
        let is_late = clock.zip(self.last_ack_clock).is_some_and(|(a, b)| is_before(a, b));
        let before = *self.acked.get_or_insert(ack);
        if ack < before || is_late {
            return;
        }
        self.last_ack_clock = clock.or(self.last_ack_clock);
        let bytes = (ack - before) as u64;
        self.acked = Some(ack);
        self.acked_bytes += bytes;
        // A segment that was not captured is acknowledged.
        self.next = self.next.max(Some(ack));
        while let Some((_, count)) = self.marks_waiting.front().filter(|m| m.0 <= ack) {
            self.marks_acked += count;
            self.marks_waiting.pop_front();
        }
        let rtt = self.round_trip(segment.at, before, ack);
        let (mut marks, ece) = (0, ace && segment.flags.ece());
        if ace {
            marks = self.ace.on_ack(segment.flags.ace(), self.count(bytes));
            self.has_ae |= segment.flags.ace() & 0b100 != 0;
            self.ece.on_ack(ece);
        }
        if let Some(counters) = segment.counters {
            self.on_counters(counters);
        }
        if let Some(left) = room.checked_sub(1).filter(|_| bytes > 0 || marks > 0) {
            *room = left;
            self.acks.push(Ack { at: segment.at, clock, rtt, marks, ece });
        }
    }

    /// Returns the time since the last segment up to `ack` passed, if none was retransmitted.
    fn round_trip(&mut self, at: Nanos, before: i64, ack: i64) -> Option<Nanos> {
        let mut last: Option<Sent> = None;
        let mut again = before < self.filled && self.filled <= ack;
        while let Some(sent) = self.outstanding.front().copied().filter(|s| s.end <= ack) {
            again |= sent.again;
            last = Some(sent);
            self.outstanding.pop_front();
        }
        last.filter(|_| !again).map(|sent| at.saturating_sub(sent.at))
    }

    /// Lets the option's counters begin as RFC 9768 section 3.2.1 says, at the start of a
    /// connection.
    pub(super) fn begin_counters(&mut self) {
        self.ace = Ace::first();
        self.counters = Some(Counters { ect0: Some(1), ce: Some(0), ect1: Some(1) });
    }

    fn on_counters(&mut self, counters: Counters) {
        let Some(last) = &mut self.counters else {
            self.counters = Some(counters);
            self.reported = Some(Codepoints::default());
            self.reported_from = self.bytes;
            return;
        };
        let sum = self.reported.get_or_insert_default();
        for (last, now, sum) in [
            (&mut last.ect0, counters.ect0, &mut sum.ect0),
            (&mut last.ce, counters.ce, &mut sum.ce),
            (&mut last.ect1, counters.ect1, &mut sum.ect1),
        ] {
            let Some(now) = now else { continue };
            let before = last.replace(now).unwrap_or(now);
            *sum += u64::from(now.wrapping_sub(before) % COUNTER);
        }
    }
}

impl EceEcho {
    fn on_ack(&mut self, ece: bool) {
        self.acks += u64::from(ece);
        match (self.is_on, ece) {
            (false, true) => {
                self.episodes += 1;
                self.cwr_came = false;
            }
            (true, false) => self.cleared_alone += u64::from(!self.cwr_came),
            _ => {}
        }
        self.is_on = ece;
    }
}

/// Whether `a` is before `b` on a clock of 32 bits that wraps (RFC 7323 section 5.2).
pub(super) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
