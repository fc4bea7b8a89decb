//! A TCP connection of a capture: its handshake and both directions.

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::ace::{Feedback, fed_back, negotiated};
use super::half::{Half, is_before};
use super::segment::{Segment, Timestamps};

/// The most times of an end that wait for their echo.
const MAX_WAITING: usize = 4_096;
/// An end is where its round trip is below this.
const HERE: Nanos = Nanos::from_micros(500);
/// It is also there where its round trip is below this part of both.
const HERE_PART: u64 = 10;
/// Flags ECE that went so often without CWR are those of DCTCP.
const EXACT: u64 = 3;
/// The length of the timestamps option with its padding, in bytes.
const TIMESTAMPS: u32 = 12;

/// The ECN bits of a SYN or SYN/ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) at: Nanos,
    /// The flags AE, CWR and ECE.
    pub(super) flags: u8,
    pub(super) ecn: Ecn,
    pub(super) seq: u32,
    ack: u32,
}

/// The round trips from the place of the capture to an end and back.
#[derive(Clone, Debug, Default)]
pub(super) struct Loop {
    waiting: VecDeque<(u32, Nanos)>,
    pub(super) samples: Vec<Nanos>,
    pub(super) least: Option<Nanos>,
}

impl Loop {
    fn add(&mut self, sample: Nanos) {
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
    }

    /// Takes the clock of a segment to the end.
    fn on_clock(&mut self, at: Nanos, clock: u32) {
        if self.waiting.back().is_some_and(|last| !is_before(last.0, clock)) {
            return;
        }
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((clock, at));
    }

    /// Takes the echo in a segment of the end.
    fn on_echo(&mut self, at: Nanos, echo: u32, room: &mut usize) {
        while let Some((clock, sent)) = self.waiting.front().copied() {
            if is_before(echo, clock) {
                return;
            }
            self.waiting.pop_front();
            if clock == echo {
                let sample = at.saturating_sub(sent);
                self.add(sample);
                if let Some(left) = room.checked_sub(1) {
                    *room = left;
                    self.samples.push(sample);
                }
            }
        }
    }
}

/// A TCP connection, as far as it is in the capture.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The ends: the client first if the handshake was captured.
    pub(super) ends: [SocketAddr; 2],
    pub(super) syn: Option<Opening>,
    pub(super) syn_ack: Option<Opening>,
    /// The flags of the first SYN, if a later one has others.
    pub(super) first_syn: Option<u8>,
    /// The ACE field of the client's answer to the SYN/ACK.
    pub(super) third: Option<u8>,
    /// The data from each end.
    pub(super) halves: [Half; 2],
    pub(super) loops: [Loop; 2],
    pub(super) packets: u64,
    mss: [Option<u16>; 2],
    is_closed: bool,
}

impl Connection {
    pub(super) fn new(segment: &Segment) -> Self {
        let mut ends = [segment.from, segment.to];
        if segment.flags.is_syn_ack() {
            ends.reverse();
        }
        Self {
            ends,
            syn: None,
            syn_ack: None,
            first_syn: None,
            third: None,
            halves: Default::default(),
            loops: Default::default(),
            packets: 0,
            mss: [None; 2],
            is_closed: false,
        }
    }

    /// Whether `segment` opens another connection between the same ports.
    pub(super) fn is_over(&self, segment: &Segment) -> bool {
        // A capture may have the SYN behind the SYN/ACK.
        let is_answered = self.syn_ack.is_some_and(|a| a.ack == segment.seq.wrapping_add(1));
        let is_other = match self.syn {
            Some(syn) => syn.seq != segment.seq,
            None => self.packets > 0 && !is_answered,
        };
        segment.flags.is_syn() && (self.is_closed || is_other)
    }

    /// Takes a segment. `room` is the number of records that may still be kept.
    pub(super) fn push(&mut self, segment: &Segment, room: &mut usize) {
        self.packets += 1;
        let end = usize::from(segment.from != self.ends[0]);
        let other = 1 - end;
        self.is_closed |= segment.flags.rst() || segment.flags.fin();
        self.clocks(segment, end, room);
        if segment.flags.is_syn() || segment.flags.is_syn_ack() {
            self.open(segment, end);
            return;
        }
        let is_third = end == 0 && self.is_answer(segment);
        if is_third && self.third.is_none() {
            self.third = Some(segment.flags.ace());
            if let Some(opening) = self.syn_ack {
                self.loops[0].add(segment.at.saturating_sub(opening.at));
            }
        }
        if segment.flags.ack() && !segment.flags.rst() {
            let before = self.halves[other].acks.len();
            self.halves[other].on_ack(segment, !is_third, room);
            let rtt = self.halves[other].acks[before..].first().and_then(|a| a.rtt);
            if let Some(rtt) = rtt {
                self.loops[end].add(rtt);
            }
        }
        self.halves[end].on_segment(segment, room);
    }

    /// Whether a segment of the client answers the SYN/ACK, so that its ACE field feeds back that
    /// one's ECN field and counts no marks: a pure acknowledgement without SACK (RFC 9768 section
    /// 3.2.2.1). The client sends it again when the SYN/ACK comes again, and a capture may have it
    /// twice.
    fn is_answer(&self, segment: &Segment) -> bool {
        let Some(opening) = self.syn_ack else { return false };
        let flags = segment.flags;
        let is_pure = segment.payload == 0 && flags.ack() && !flags.fin() && !segment.has_sack;
        is_pure
            && segment.ack == opening.seq.wrapping_add(1)
            && segment.seq == opening.ack
            && self.third.is_none_or(|third| third == flags.ace())
    }

    fn clocks(&mut self, segment: &Segment, end: usize, room: &mut usize) {
        let Some(Timestamps { value, echo }) = segment.timestamps else { return };
        self.loops[1 - end].on_clock(segment.at, value);
        if segment.flags.ack() && !segment.flags.is_syn_ack() {
            self.loops[end].on_echo(segment.at, echo, room);
        }
    }

    fn open(&mut self, segment: &Segment, end: usize) {
        let opening = Opening {
            at: segment.at,
            flags: segment.flags.ace(),
            ecn: segment.ecn,
            seq: segment.seq,
            ack: segment.ack,
        };
        self.halves[end].on_syn(segment);
        self.mss[end] = segment.mss;
        if segment.flags.is_syn() {
            match self.syn {
                Some(_) if self.syn_ack.is_some() => {}
                Some(syn) if syn.flags != opening.flags => {
                    self.first_syn.get_or_insert(syn.flags);
                    self.syn = Some(opening);
                }
                _ => self.syn = Some(opening),
            }
            return;
        }
        if self.syn_ack.is_some() {
            return;
        }
        self.syn_ack = Some(opening);
        if let Some(syn) = self.syn {
            self.loops[1].add(segment.at.saturating_sub(syn.at));
        }
        let size = self.mss.iter().flatten().min().map(|&mss| {
            let options = if segment.timestamps.is_some() { TIMESTAMPS } else { 0 };
            u32::from(mss).saturating_sub(options).max(1)
        });
        let feedback = negotiated(self.syn.map(|s| s.flags), Some(opening.flags));
        for half in &mut self.halves {
            // Without both it is the other end's limit, which may be larger.
            half.segment = if self.mss.iter().all(Option::is_some) { size } else { None };
            if feedback == Feedback::Accurate {
                half.begin_counters();
            }
        }
    }

    /// The feedback of the connection: of the handshake, or as the segments show it.
    pub(super) fn feedback(&self) -> Feedback {
        let opened = negotiated(self.syn.map(|s| s.flags), self.syn_ack.map(|s| s.flags));
        let exact = |half: &Half| {
            half.ece.cleared_alone >= EXACT && half.ece.cleared_alone * 2 > half.ece.episodes
        };
        match opened {
            Feedback::Classic if self.halves.iter().any(exact) => Feedback::Exact,
            Feedback::Unknown if self.halves.iter().any(|half| half.has_ae) => Feedback::Accurate,
            // Only classic ECN has acknowledgements with ECE and data with CWR, and no AE.
            Feedback::Unknown if self.halves.iter().any(exact) => Feedback::Exact,
            opened => opened,
        }
    }

    /// The ECN field with which the SYN arrived, as the SYN/ACK says, if AccECN is negotiated.
    pub(super) fn syn_arrived(&self) -> Option<Ecn> {
        (self.feedback() == Feedback::Accurate).then_some(())?;
        fed_back(self.syn_ack?.flags)
    }

    /// The ECN field with which the SYN/ACK arrived, as the client says, if AccECN is negotiated.
    pub(super) fn syn_ack_arrived(&self) -> Option<Ecn> {
        (self.feedback() == Feedback::Accurate).then_some(())?;
        fed_back(self.third?)
    }

    /// The end at which the capture was taken; `Ok` of its number, `Err(true)` in between, and
    /// `Err(false)` if that cannot be told.
    pub(super) fn here(&self) -> Result<usize, bool> {
        let [Some(a), Some(b)] = [&self.loops[0], &self.loops[1]].map(|l| l.least) else {
            return Err(false);
        };
        let limit = HERE.max((a + b) / HERE_PART);
        match (a <= limit, b <= limit) {
            (true, false) => Ok(0),
            (false, true) => Ok(1),
            (true, true) => Err(false),
            (false, false) => Err(true),
        }
    }
}
