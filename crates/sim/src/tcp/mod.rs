//! TCP as Linux speaks it, one end of a connection: bytes in order, both ways.
//!
//! An [`Endpoint`] does no I/O: segments and times go in, segments to send come out. Connections are
//! established when they are made, with the handshake's round-trip time known or not. The
//! application reads at once, so a window is closed by gaps only, and there is no window probe.
//!
//! What Linux does and this does not: automatic corking (which holds segments back while the sender's
//! own device is busy), limits of the machine's memory, coarse timers, and marking losses by counting
//! duplicates, which RACK has replaced. Small queues are in `crate::egress`; a sender without a machine
//! before it has a device that is never busy.

pub(crate) mod congestion;
mod pacing;
mod rack;
mod receiver;
mod ring;
mod rtt;
pub(crate) mod segment;
mod sender;
#[cfg(test)]
mod tests;

use forebay_units::Nanos;

pub use congestion::Congestion;
pub(crate) use congestion::Stack;
pub use pacing::Pacing;
pub(crate) use segment::Segment;

use receiver::Receiver;
use sender::Sender;

/// Payload of a full segment: 1500 B less IPv4 and TCP headers with timestamps.
pub(crate) const MSS: u64 = 1448;
/// Linux's timestamps count milliseconds.
const TICK: u64 = 1_000_000;
/// The most memory for what is received, as the laboratory's hosts have it (`tcp_rmem`).
const LARGEST_BUFFER: u64 = 32 << 20;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    sender: Sender,
    receiver: Receiver,
}

impl Endpoint {
    /// An established connection whose handshake took `rtt`.
    pub(crate) fn new(now: Nanos, stack: Stack, rtt: Option<Nanos>, random: u64) -> Self {
        let sender = Sender::new(now, stack, rtt, random);
        Self { receiver: Receiver::new(now, LARGEST_BUFFER, sender.ecn()), sender }
    }

    /// The application has `bytes` more to send.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// The application has no more to send; what was sent is still repaired.
    pub(crate) fn stop(&mut self) {
        self.sender.stop();
    }

    /// A segment came, marked or not; returns how many bytes the application reads.
    pub(crate) fn on_segment(&mut self, now: Nanos, segment: &Segment, ce: bool) -> u64 {
        if segment.len > 0 {
            self.receiver.on_data(now, segment, ce, &self.sender.context());
        } else {
            self.receiver.on_pure_ack(segment);
        }
        if !self.sender.is_old_news(segment) {
            self.sender.on_ack(now, segment);
        }
        if segment.len > 0 { self.receiver.read(now) } else { 0 }
    }

    /// The instant came that [`Endpoint::deadline`] gave.
    pub(crate) fn on_timer(&mut self, now: Nanos) {
        self.receiver.on_timer(now, &self.sender.context());
        self.sender.on_timer(now);
    }

    /// Makes `segment` the next one to send now; false if there is none. To be asked after every event
    /// until there is none.
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

    /// Whether [`Endpoint::transmit`] may have data to send: nothing but waiting for a larger window
    /// could keep it from that.
    pub(crate) fn wants_to_send(&mut self, now: Nanos) -> bool {
        self.sender.wants_to_send(now.0) || self.receiver.must_ack()
    }

    /// Whether the next segment belongs to the super-packet of the last.
    pub(crate) fn is_within_burst(&self) -> bool {
        self.sender.is_within_burst()
    }

    /// The machine's own queue refused what was to be sent.
    pub(crate) fn on_local_drop(&mut self, now: Nanos) {
        self.sender.on_local_drop(now);
    }

    /// The round trip that the last segment told of, once.
    pub(crate) fn take_round_trip(&mut self) -> Option<Nanos> {
        self.sender.round_trip.take().map(Nanos)
    }

    /// When to call [`Endpoint::on_timer`]; [`Nanos::MAX`] for never.
    pub(crate) fn deadline(&self) -> Nanos {
        self.sender.deadline().min(self.receiver.deadline())
    }

    /// Segments sent again, and timeouts.
    pub(crate) fn repairs(&self) -> (u64, u64) {
        (self.sender.retransmissions, self.sender.timeouts)
    }
}
