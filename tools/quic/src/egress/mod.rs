//! The egress without a socket: it takes packets, pauses and resumes connections, and says what to
//! send when.

mod flows;
mod scheduler;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use std::fmt;

use forebay_queue::backpressure::FlowId;
use forebay_queue::{ConfigError, Packet};
use forebay_units::Nanos;
use quinn::udp::Transmit;

use crate::config::Config;
use crate::datagram::Datagram;
use crate::statistics::Statistics;
use flows::{Flows, Invitations};
use scheduler::{OTHERS, Put, Scheduler};

/// How long room is kept for a connection that was resumed. A connection answers as soon as its
/// task runs, so one that takes longer is stuck, or it was closed while a handle still exists.
const ANSWER_WITHIN: Nanos = Nanos::from_millis(500);

/// The result of [`Egress::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// The transmit is in the buffer, or was dropped there, which only the statistics show.
    Taken,
    /// The connection is paused. Keep the transmit and pass it again once the connection is
    /// resumed. The egress knows which part of it was taken.
    Paused,
}

/// A scheduled buffer with a rate, to which many connections send. Time comes in as an argument,
/// and the packets to send and the connections to wake come out as values.
pub struct Egress {
    scheduler: Scheduler,
    flows: Flows,
    invitations: Invitations,
    statistics: Statistics,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("statistics", &self.statistics).finish_non_exhaustive()
    }
}

impl Egress {
    /// Creates an empty egress.
    ///
    /// # Errors
    /// Returns the first setting that is out of range.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            scheduler: Scheduler::new(config)?,
            flows: Flows::new(config.flows),
            invitations: Invitations::default(),
            statistics: Statistics::default(),
        })
    }

    /// Opens a connection and returns its number. The result is `None` if there are too many; send
    /// the packets of such a connection with `None`.
    pub fn open(&mut self) -> Option<FlowId> {
        let flow = self.flows.open();
        self.statistics.unregulated += u64::from(flow.is_none());
        flow
    }

    /// Closes a connection, paused or not. Call [`Egress::resume`] afterwards, since its room is
    /// free now.
    pub fn close(&mut self, flow: FlowId) {
        self.scheduler.remove(flow);
        self.flows.close(flow);
    }

    /// Takes `transmit` from `flow`, segment by segment, or pauses the connection.
    pub fn send(&mut self, now: Nanos, flow: Option<FlowId>, transmit: &Transmit<'_>) -> Offer {
        let number = flow.unwrap_or(OTHERS);
        self.flows.answered(number);
        // An empty transmit is a datagram too.
        let whole = transmit.contents.len().max(1);
        let size = transmit.segment_size.unwrap_or(whole).clamp(1, whole);
        let segments = whole.div_ceil(size);
        let first = self.flows.taken(number, transmit) as usize;
        for index in first..segments {
            let was_paused = self.scheduler.is_paused(number);
            if !self.scheduler.admits(now, number) {
                self.paused(number, was_paused, transmit, index);
                return Offer::Paused;
            }
            let end = transmit.contents.len().min((index + 1) * size);
            let contents = &transmit.contents[index * size..end];
            match self.scheduler.put(now, Datagram::new(number, transmit, contents)) {
                Put::In { dropped } => {
                    self.statistics.taken += 1;
                    self.statistics.dropped += u64::from(dropped);
                }
                Put::Paused => {
                    self.paused(number, was_paused, transmit, index);
                    return Offer::Paused;
                }
            }
        }
        self.flows.set_taken(number, transmit, 0);
        Offer::Taken
    }

    fn paused(&mut self, flow: FlowId, before: bool, transmit: &Transmit<'_>, taken: usize) {
        self.statistics.pauses += u64::from(!before);
        self.flows.set_taken(flow, transmit, taken as u32);
    }

    /// Returns whether `flow` is paused.
    pub fn is_paused(&self, flow: FlowId) -> bool {
        self.scheduler.is_paused(flow)
    }

    /// Returns the number of packets of `flow` in the buffer. In mode [`Drop`](crate::Mode::Drop)
    /// they are not counted, and the result is 0.
    pub fn in_buffer(&self, flow: FlowId) -> u32 {
        self.scheduler.in_buffer(flow)
    }

    /// Returns the next packet to send, if one may leave now. Call [`Egress::resume`] afterwards.
    pub fn dequeue(&mut self, now: Nanos) -> Option<Datagram> {
        let packet = self.scheduler.dequeue(now)?;
        self.statistics.sent += 1;
        self.statistics.sent_bytes += packet.len().0;
        Some(packet)
    }

    /// Records that the socket below refused a packet that had left, so the packet is lost.
    pub fn refused(&mut self) {
        self.statistics.refused += 1;
    }

    /// Returns a connection to wake, since there is room for it.
    ///
    /// Call it until it returns `None` after packets have left, after [`Egress::close`], and at the
    /// time of [`Egress::next_event`].
    pub fn resume(&mut self, now: Nanos) -> Option<FlowId> {
        while let Some((until, flow)) = self.invitations.first(&mut self.flows) {
            if now < until {
                break;
            }
            self.flows.answered(flow);
            self.scheduler.idle(flow);
            self.statistics.unanswered += 1;
        }
        let flow = self.scheduler.resume(now)?;
        self.statistics.resumes += 1;
        let invitation = self.flows.invite(flow);
        let until = now.saturating_add(ANSWER_WITHIN);
        self.invitations.add(until, flow, invitation, &mut self.flows);
        Some(flow)
    }

    /// Returns the time of the next action: a packet may leave, or room was not used. A time of
    /// `now` or earlier means at once, and `None` that nothing waits.
    pub fn next_event(&mut self, now: Nanos) -> Option<Nanos> {
        let unanswered = self.invitations.first(&mut self.flows).map(|(until, _)| until);
        [self.scheduler.next_event(now), unanswered].into_iter().flatten().min()
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            flows: self.flows.len(),
            backlog: self.scheduler.backlog().packets as u32,
            ..self.statistics
        }
    }
}
