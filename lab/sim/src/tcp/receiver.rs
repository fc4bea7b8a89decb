//! The receiving half of a connection: reassembly, acknowledgements and the receive window.

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
use ecn::EcnEcho;
pub(crate) use ecn::EcnMode;
use reassembly::{Arrival, Reassembly};
use tuning::Tuning;

/// The state of the receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    data: Reassembly,
    acks: Acks,
    tuning: Tuning,
    echo: EcnEcho,
    /// An acknowledgement to send before the current one: its number and its ECN echo.
    first: Option<(u64, bool)>,
    /// The end of what the application has read.
    read: u64,
    /// The timestamp to echo, that of the earliest unacknowledged segment (RFC 7323 section 4.3).
    timestamp: u64,
    /// The right edge of the window, which never moves back (RFC 9293 section 3.8.6).
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
            echo: EcnEcho::new(ecn),
            first: None,
            read: 0,
            timestamp: 0,
        }
    }

    /// Returns the number of marked packets so far, if they are counted.
    pub(crate) fn marked(&self) -> u32 {
        self.echo.marked
    }

    /// Handles a segment with data, marked or not.
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
                // A filled gap is acknowledged at once (RFC 5681 section 4.2).
                self.acks.now |= closed;
            }
        }
        // Linux does this after in-order data is in memory, and before out-of-order data is.
        let len = u64::from(segment.len);
        let held = match arrival {
            Arrival::Ahead { .. } => self.data.out_of_order.saturating_sub(len),
            _ => self.data.out_of_order + len,
        };
        if self.tuning.on_data(len, held) {
            // The peer learns of the larger window at once.
            self.acks.quick_ack_next();
        }
        let packet = (segment.ecn != Ecn::NotEct, ce, segment.cwr);
        let request = self.echo.on_packet(packet, self.data.next, self.acks.delayed.is_some());
        if request.quick > 0 {
            self.acks.quick_ack(request.quick);
        }
        self.acks.now |= request.at_once;
        self.first = self.first.or(request.before);
        self.acks.decide(now, self.data.next, self.data.has_gaps(), self.tuning.rtt, context);
    }

    /// Handles a segment without data.
    pub(crate) fn on_pure_ack(&mut self, segment: &Segment) {
        self.timestamp = self.timestamp.max(segment.timestamp);
    }

    /// Reads the data that arrived in order since the last call. Returns its bytes.
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

    /// Records that this end sends data.
    pub(crate) fn on_answer(&mut self, now: Nanos) {
        self.acks.on_answer(now);
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.acks.deadline()
    }

    /// Returns the next byte expected.
    pub(crate) fn next_byte(&self) -> u64 {
        self.data.next
    }

    /// Returns whether an acknowledgement must be sent now, even without data.
    #[inline]
    pub(crate) fn must_ack(&self) -> bool {
        self.acks.now || self.first.is_some()
    }

    /// Fills `segment` with an acknowledgement that must be sent before any other. Returns false if
    /// there is none.
    pub(crate) fn acknowledge_first(&mut self, segment: &mut Segment) -> bool {
        let Some((next, ece)) = self.first.take() else { return false };
        segment.ack = next;
        segment.window = u32::try_from(self.edge - next).unwrap_or(u32::MAX);
        (segment.echo, segment.ece, segment.marked) = (self.timestamp, ece, self.echo.marked);
        true
    }

    /// Fills the acknowledgement of `segment`, which is sent now.
    pub(crate) fn acknowledge(&mut self, segment: &mut Segment) {
        let next = self.data.next;
        segment.ack = next;
        let (window, scarce) = self.tuning.window(self.data.out_of_order);
        self.edge = self.edge.max(next + window);
        if scarce {
            self.acks.stop_quick_acks();
        }
        segment.window = u32::try_from(self.edge - next).unwrap_or(u32::MAX);
        (segment.echo, segment.ece, segment.marked) =
            (self.timestamp, self.echo.ece, self.echo.marked);
        segment.sack = self.data.sack();
        self.echo.on_reported();
        self.acks.on_sent(next);
    }
}
