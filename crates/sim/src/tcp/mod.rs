//! TCP as Linux speaks it, one end of a connection: bytes in order, both ways.
//!
//! An [`Endpoint`] does no I/O: segments and times go in, segments to send come out. Connections are
//! established from the start, with the handshake's round-trip time known. The application reads at
//! once, so a window is never closed, and there is no window probe.
//!
//! What Linux does and this does not: F-RTO, compressed SACKs, small queues and automatic corking
//! (which hold segments back while the sender's own device is busy; here it never is).

pub(crate) mod congestion;
mod rack;
mod receiver;
mod ring;
mod rtt;
pub(crate) mod segment;
mod sender;

use forebay_units::Nanos;

pub use congestion::Congestion;
pub(crate) use segment::Segment;

use receiver::Receiver;
use sender::Sender;

/// Payload of a full segment: 1500 B less IPv4 and TCP headers with timestamps.
pub(crate) const MSS: u64 = 1448;
/// The largest receive window: half of a 32 MiB buffer.
const LARGEST_WINDOW: u64 = 16 << 20;
/// Who sends this soon after receiving is taken to be in a conversation (Linux's `ato`).
const CONVERSATION: Nanos = Nanos::from_millis(40);

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    heard: Nanos,
    interactive: bool,
}

impl Endpoint {
    /// An established connection whose handshake took `rtt`.
    pub(crate) fn new(now: Nanos, congestion: Congestion, rtt: Option<Nanos>, random: u64) -> Self {
        let sender = Sender::new(now, congestion, rtt, random);
        Self {
            receiver: Receiver::new(now, LARGEST_WINDOW, sender.wants_ecn()),
            sender,
            heard: Nanos::ZERO,
            interactive: false,
        }
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
            let timeout = self.sender.timeout();
            self.receiver.on_data(now, segment, ce, timeout, self.interactive);
            self.heard = now;
        } else {
            self.receiver.on_pure_ack(segment);
        }
        self.sender.on_ack(now, segment);
        if segment.len > 0 { self.receiver.read(now) } else { 0 }
    }

    /// The instant came that [`Endpoint::deadline`] gave.
    pub(crate) fn on_timer(&mut self, now: Nanos) {
        self.receiver.on_timer(now);
        self.sender.on_timer(now);
    }

    /// The next segment to send now. To be asked after every event until there is none.
    pub(crate) fn transmit(&mut self, now: Nanos) -> Option<Segment> {
        let mut segment = Segment { timestamp: now.0, ..Segment::default() };
        if self.sender.transmit(now, &mut segment) {
            self.interactive =
                self.heard > Nanos::ZERO && now.saturating_sub(self.heard) < CONVERSATION;
        } else if !self.receiver.must_ack() {
            return None;
        } else {
            segment.seq = self.sender.next_byte();
        }
        self.receiver.acknowledge(&mut segment);
        Some(segment)
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
