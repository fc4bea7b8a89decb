//! The receiving half of a connection: what arrived, when to acknowledge it, and how large a window
//! to offer.

mod acks;
mod ecn;
mod reassembly;
#[cfg(test)]
mod tests;
mod tuning;

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::segment::Segment;
use acks::Acks;
pub(crate) use acks::Context;
use ecn::Echo;
pub(crate) use ecn::EcnMode;
use reassembly::{Arrival, Reassembly};
use tuning::Tuning;

#[derive(Debug)]
pub(crate) struct Receiver {
    data: Reassembly,
    acks: Acks,
    tuning: Tuning,
    echo: Echo,
    /// An acknowledgement that goes before the one of all: up to here, with this echo.
    first: Option<(u64, bool)>,
    /// Up to where the application has read.
    read: u64,
    /// The timestamp to echo: of the earliest segment that is not acknowledged (RFC 7323 section
    /// 4.3).
    timestamp: u64,
    /// The window's right edge, which never goes back (RFC 9293 section 3.8.6).
    edge: u64,
}

impl Receiver {
    pub(crate) fn new(now: Nanos, largest_buffer: u64, ecn: EcnMode) -> Self {
        let tuning = Tuning::new(now, largest_buffer);
        Self {
            data: Reassembly::default(),
            acks: Acks::new(),
            edge: Tuning::first_window(),
            tuning,
            echo: Echo::new(ecn),
            first: None,
            read: 0,
            timestamp: 0,
        }
    }

    /// Data came, marked or not.
    pub(crate) fn on_data(&mut self, now: Nanos, segment: &Segment, ce: bool, context: &Context) {
        let (start, end) = (segment.seq, segment.end());
        self.tuning.on_echo(now, segment.echo);
        if start <= self.acks.acked {
            self.timestamp = self.timestamp.max(segment.timestamp);
        }
        let arrival = self.data.take(start, end);
        match arrival {
            Arrival::Old => return self.acks.on_duplicate(),
            Arrival::Ahead { full } => self.acks.on_gap(full),
            Arrival::Next { closed } => {
                self.acks.on_data(now, u64::from(segment.len), segment.push, context);
                // RFC 5681 section 4.2: at once when a gap is filled.
                self.acks.now |= closed;
            }
        }
        // Linux looks when what came in sequence is in memory, and before what came out of it is.
        let len = u64::from(segment.len);
        let held = match arrival {
            Arrival::Ahead { .. } => self.data.behind.saturating_sub(len),
            _ => self.data.behind + len,
        };
        if self.tuning.on_data(len, held) {
            // The peer is to know at once.
            self.acks.quicken();
        }
        let packet = (segment.ecn != Ecn::NotEct, ce, segment.cwr);
        let wish = self.echo.on_packet(packet, self.data.next, self.acks.delayed.is_some());
        if wish.quick > 0 {
            self.acks.hurry(wish.quick);
        }
        self.acks.now |= wish.at_once;
        self.first = self.first.or(wish.before);
        self.acks.decide(now, self.data.next, self.data.has_gaps(), self.tuning.rtt, context);
    }

    /// A segment without data came.
    pub(crate) fn on_pure_ack(&mut self, segment: &Segment) {
        self.timestamp = self.timestamp.max(segment.timestamp);
    }

    /// What came in order since this was last asked; the application reads at once.
    pub(crate) fn read(&mut self, now: Nanos) -> u64 {
        let before = std::mem::replace(&mut self.read, self.data.next);
        if self.read > before {
            self.tuning.on_read(now, before, self.read);
        }
        self.read - before
    }

    pub(crate) fn on_timer(&mut self, now: Nanos, context: &Context) {
        self.acks.on_timer(now, context);
    }

    /// This end sends data of its own.
    pub(crate) fn on_answer(&mut self, now: Nanos) {
        self.acks.on_answer(now);
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.acks.deadline()
    }

    /// Whether an acknowledgement has to go out, if need be without data.
    #[inline]
    pub(crate) fn must_ack(&self) -> bool {
        self.acks.now || self.first.is_some()
    }

    /// Puts an acknowledgement on `segment` that has to go out before any other; false if there is
    /// none.
    pub(crate) fn acknowledge_first(&mut self, segment: &mut Segment) -> bool {
        let Some((next, ece)) = self.first.take() else { return false };
        segment.ack = next;
        segment.window = u32::try_from(self.edge - next).unwrap_or(u32::MAX);
        (segment.echo, segment.ece, segment.marked) = (self.timestamp, ece, self.echo.marked);
        true
    }

    /// Puts the acknowledgement on `segment`, which is sent now.
    pub(crate) fn acknowledge(&mut self, segment: &mut Segment) {
        let next = self.data.next;
        segment.ack = next;
        let (window, scarce) = self.tuning.window(self.data.behind);
        self.edge = self.edge.max(next + window);
        if scarce {
            self.acks.slow_down();
        }
        segment.window = u32::try_from(self.edge - next).unwrap_or(u32::MAX);
        (segment.echo, segment.ece, segment.marked) =
            (self.timestamp, self.echo.ece, self.echo.marked);
        segment.sack = self.data.sack();
        self.echo.on_told();
        self.acks.on_sent(next);
    }
}
