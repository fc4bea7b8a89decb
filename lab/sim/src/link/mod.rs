//! Links: a queue in front of a wire with delay, jitter and loss.
//!
//! [`Wire`] and [`Propagation`] decide when a packet leaves and arrives, or that it is lost. They
//! read no clock and hold no packet, so that the laboratory's link emulator uses the same code.

mod capacity;
mod delay;
mod policer;
mod propagation;
mod trace;

use std::collections::VecDeque;

use forebay_queue::{DropReason, DropSink, Qdisc, Room};
use forebay_units::{Bytes, Nanos};

pub use self::capacity::{Capacity, Wire};
pub use self::delay::DelayTrace;
pub use self::policer::{Policer, PolicerConfig};
pub use self::propagation::{Jitter, Loss, Propagation, PropagationConfig};
pub use self::trace::{Trace, TraceError};
use crate::network::SetupError;
use crate::packet::Queued;
use crate::random::Random;

/// The length of a full packet in bytes.
const FULL: u64 = 1514;

/// A queueing discipline of this simulator.
pub type Queue = Box<dyn Qdisc<Queued>>;

/// The configuration of a link.
pub struct LinkConfig {
    /// The capacity of the link.
    pub capacity: Capacity,
    /// The propagation delay.
    pub delay: Nanos,
    /// A delay over time, which is added to `delay`.
    pub delay_trace: Option<DelayTrace>,
    /// The queue; a link of unlimited capacity needs none.
    pub queue: Option<Queue>,
    /// A policer in front of the queue.
    pub policer: Option<PolicerConfig>,
    /// The packet loss of the wire.
    pub loss: Loss,
    /// The variation of the delay.
    pub jitter: Jitter,
}

impl Default for LinkConfig {
    /// A link of unlimited capacity without delay.
    fn default() -> Self {
        Self {
            capacity: Capacity::Unlimited,
            delay: Nanos::ZERO,
            delay_trace: None,
            queue: None,
            policer: None,
            loss: Loss::None,
            jitter: Jitter::default(),
        }
    }
}

/// The packet counters of a link. `received = sent + dropped + lost + inside` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that arrived at the link.
    pub received: u64,
    /// Packets that reached the other end.
    pub sent: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that left the queue and that it marked; they arrived without the mark.
    pub marked: u64,
    /// Packets that the wire lost.
    pub lost: u64,
    /// Packets that wait in the queue or are on the wire.
    pub inside: u64,
}

/// A packet that has been sent on the wire.
pub(crate) struct Departure {
    pub(crate) packet: Queued,
    /// The time at which it reaches the other end, or `None` if it is lost.
    pub(crate) arrival: Option<Nanos>,
}

/// The packets on a wire in the order of their arrival.
///
/// Only the first one has an event, so that the event queue does not grow with the packets on
/// links.
#[derive(Default)]
pub(crate) struct InOrder {
    pub(crate) packets: VecDeque<(Nanos, u32)>,
    /// Whether the arrival of the first packet has an event.
    pub(crate) awaited: bool,
}

/// A link with its queue and wire.
pub(crate) struct Link {
    wire: Wire,
    propagation: Propagation,
    queue: Option<Queue>,
    policer: Option<Policer>,
    /// The packets on the wire, if they do not overtake each other.
    pub(crate) in_order: Option<InOrder>,
    /// Whether an event will serve the link when the wire is free.
    pub(crate) awaited: bool,
    pub(crate) counters: LinkCounters,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, random: Random) -> Result<Self, SetupError> {
        let LinkConfig { capacity, delay, delay_trace, queue, policer, loss, jitter } = config;
        let is_limited = capacity != Capacity::Unlimited;
        let wire = Wire::new(capacity)?;
        if queue.is_none() && is_limited {
            return Err(SetupError::NoQueue);
        }
        let propagation =
            PropagationConfig { delay, delay_trace, loss, jitter, ..PropagationConfig::default() };
        let propagation = Propagation::new(propagation, random)?;
        Ok(Self {
            wire,
            in_order: propagation.keeps_order().then(InOrder::default),
            propagation,
            queue,
            policer: policer.map(Policer::new).transpose()?,
            awaited: false,
            counters: LinkCounters::default(),
        })
    }

    /// Enqueues an arriving packet, or sends it at once on a link without a queue. The policer may
    /// drop it.
    pub(crate) fn enter(
        &mut self,
        now: Nanos,
        packet: Queued,
        drops: &mut dyn DropSink<Queued>,
    ) -> Option<Departure> {
        self.counters.received += 1;
        self.counters.inside += 1;
        if let Some(policer) = &mut self.policer
            && !policer.passes(now, Bytes(u64::from(packet.len)))
        {
            // Its bucket is a limit in bytes.
            drops.dropped(packet, DropReason::ByteLimit);
            return None;
        }
        match &mut self.queue {
            Some(queue) => {
                queue.enqueue(now, packet, drops);
                None
            }
            None => Some(self.depart(now, packet)),
        }
    }

    /// Returns the number of full packets that the queue has room for.
    pub(crate) fn room(&self) -> u64 {
        let room = self.queue.as_ref().map_or(Room::UNLIMITED, |queue| queue.room(0));
        room.packets.min(room.bytes.0 / FULL)
    }

    /// Sets the delay of packets from now on. Without `reorders` none overtakes an earlier packet.
    pub(crate) fn set_delay(&mut self, delay: Nanos) {
        self.propagation.set_delay(delay);
    }

    /// Returns whether the wire is busy and an event will serve the link when it is free.
    #[inline]
    pub(crate) fn waits(&self, now: Nanos) -> bool {
        self.awaited && self.wire.is_busy(now)
    }

    /// Sends the next packet if the wire is free now.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink<Queued>,
    ) -> Option<Departure> {
        if self.wire.is_busy(now) { None } else { self.serve_free(now, drops) }
    }

    fn serve_free(&mut self, now: Nanos, drops: &mut dyn DropSink<Queued>) -> Option<Departure> {
        if self.wire.ready(now) > now {
            return None;
        }
        let packet = self.queue.as_mut()?.dequeue(now, drops)?;
        Some(self.depart(now, packet))
    }

    /// Returns when to serve the link again, if a packet waits.
    pub(crate) fn next_event(&mut self, now: Nanos) -> Option<Nanos> {
        let waits_for = self.queue.as_ref()?.next_event(now)?;
        Some(waits_for.max(self.wire.ready(now)))
    }

    fn depart(&mut self, now: Nanos, packet: Queued) -> Departure {
        self.counters.marked += u64::from(packet.marked);
        let end = self.wire.send(now, Bytes(u64::from(packet.len)));
        let arrival = self.propagation.arrival(end);
        if arrival.is_none() {
            self.counters.lost += 1;
            self.counters.inside -= 1;
        }
        Departure { packet, arrival }
    }
}

#[cfg(test)]
mod tests;
