//! One end of a TCP connection, as in Linux.
//!
//! An [`Endpoint`] does no I/O: it takes segments and times and returns segments to send.
//! Connections are created established, with or without the round-trip time of a handshake. The
//! application reads at once, so only gaps close a window, and there is no window probe.
//!
//! Not modelled are automatic corking (which holds segments back while the sender's device is
//! busy), limits of the machine's memory, coarse timers, and loss detection by duplicate
//! acknowledgements, which RACK replaces. Small queues are in `crate::egress`; without an egress
//! the device is never busy.

pub(crate) mod congestion;
mod pacing;
mod rack;
mod receiver;
mod ring;
mod rtt;
pub(crate) mod segment;
mod sender;
mod state;
#[cfg(test)]
mod tests;

use forebay_units::{Nanos, Rate};

pub use congestion::Congestion;
pub(crate) use congestion::Stack;
pub use pacing::Pacing;
pub(crate) use receiver::EcnMode;
pub(crate) use segment::Segment;

use receiver::Receiver;
use sender::Sender;

/// The payload of a full segment in bytes: 1500 B less IPv4 and TCP headers with timestamps.
pub(crate) const MSS: u64 = 1448;
/// The unit of Linux's timestamps, a millisecond in nanoseconds.
const TICK: u64 = 1_000_000;
/// The window scale of the largest buffer.
pub(crate) const WINDOW_SCALE: u8 = 10;
/// The largest receive buffer in bytes, that of the laboratory's hosts (`tcp_rmem`).
const MAX_BUFFER: u64 = 32 << 20;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    sender: Sender,
    receiver: Receiver,
}

impl Endpoint {
    /// Creates an end of an established connection whose handshake took `rtt`.
    pub(crate) fn new(now: Nanos, stack: Stack, rtt: Option<Nanos>, random: u64) -> Self {
        let sender = Sender::new(now, stack, rtt, random);
        Self { receiver: Receiver::new(now, MAX_BUFFER, sender.ecn()), sender }
    }

    /// Adds `bytes` that the application has to send.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// Discards the data that was not sent; losses are still repaired.
    pub(crate) fn stop(&mut self) {
        self.sender.stop();
    }

    /// Handles a segment, marked or not. Returns how many bytes the application reads.
    pub(crate) fn on_segment(&mut self, now: Nanos, segment: &Segment, ce: bool) -> u64 {
        if segment.len > 0 {
            self.receiver.on_data(now, segment, ce, &self.sender.context());
        } else {
            self.receiver.on_pure_ack(segment);
        }
        if !self.sender.is_uninformative(segment) {
            self.sender.on_ack(now, segment);
        }
        if segment.len > 0 { self.receiver.read(now) } else { 0 }
    }

    /// Handles the timers at the time of [`Endpoint::deadline`].
    pub(crate) fn on_timer(&mut self, now: Nanos) {
        self.receiver.on_timer(now, &self.sender.context());
        self.sender.on_timer(now);
    }

    /// Fills `segment` with the next one to send now. Returns false if there is none. Call this
    /// after every event until there is none.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        let idle = self.sender.is_idle() && !self.receiver.must_ack();
        !idle && self.transmit_some(now, segment)
    }

    fn transmit_some(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        let ecn = self.sender.ecn().codepoint_of_others();
        *segment = Segment { timestamp: now.0, ecn, ..Segment::default() };
        if self.receiver.acknowledge_first(segment) {
            segment.seq = self.sender.next_byte();
            return true;
        }
        if self.sender.transmit(now, segment) {
            self.receiver.on_answer(now);
        } else if !self.receiver.must_ack() {
            return false;
        } else {
            segment.seq = self.sender.next_byte();
        }
        self.receiver.acknowledge(segment);
        true
    }

    /// Returns whether [`Endpoint::transmit`] may have something to send. It can still send
    /// nothing, if it waits for a larger window.
    pub(crate) fn wants_to_send(&mut self, now: Nanos) -> bool {
        self.sender.wants_to_send(now.0) || self.receiver.must_ack()
    }

    /// Returns Linux's default pacing rate (`sk_pacing_rate`), whether or not TCP paces itself.
    pub(crate) fn pacing_rate(&self) -> Rate {
        self.sender.default_rate()
    }

    /// Returns whether the next segment belongs to the same super-packet as the last one.
    pub(crate) fn is_within_burst(&self) -> bool {
        self.sender.is_within_burst()
    }

    /// Handles the refusal of a super-packet by the machine's queue.
    pub(crate) fn on_local_drop(&mut self, now: Nanos) {
        self.sender.on_local_drop(now);
    }

    /// Takes the round-trip time that the last segment measured.
    pub(crate) fn take_round_trip(&mut self) -> Option<Nanos> {
        self.sender.round_trip.take().map(Nanos)
    }

    /// Returns when to call [`Endpoint::on_timer`]; [`Nanos::MAX`] means never.
    pub(crate) fn deadline(&self) -> Nanos {
        self.sender.deadline().min(self.receiver.deadline())
    }

    /// Returns the congestion window, the segments in flight, and the smoothed round-trip time;
    /// `None` before the first data.
    pub(crate) fn sender_state(&self) -> Option<(u32, u32, Option<Nanos>)> {
        self.sender.state()
    }

    /// Returns the next byte to send and the next one expected.
    pub(crate) fn next_bytes(&self) -> (u64, u64) {
        (self.sender.next_byte(), self.receiver.next_byte())
    }

    /// Returns the number of marked packets that the receiver counted.
    pub(crate) fn marked(&self) -> u32 {
        self.receiver.marked()
    }

    /// Returns the numbers of retransmissions and of timeouts.
    pub(crate) fn repairs(&self) -> (u64, u64) {
        (self.sender.retransmissions, self.sender.timeouts)
    }
}
