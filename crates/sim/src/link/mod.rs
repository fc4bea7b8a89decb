//! Links: a queue in front of a wire with delay, jitter and loss.

mod capacity;
mod trace;

use std::collections::VecDeque;

use forebay_queue::{DropSink, Qdisc, Room};
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

pub use self::capacity::Capacity;
use self::capacity::Wire;
pub use self::trace::{Trace, TraceError};
use crate::network::SetupError;
use crate::packet::Queued;
use crate::random::Random;

/// The longest delay that is accepted, longer than that of any real path.
const LONGEST: Nanos = Nanos::from_secs(100);

/// The length of a full packet in bytes.
const FULL: u64 = 1514;

/// A queueing discipline of this simulator.
pub type Queue = Box<dyn Qdisc<Queued>>;

/// The packet loss of a wire, after the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// A wire without loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability.
    Random(f64),
    /// Loss in bursts (Gilbert's model). After each packet a good state becomes bad with
    /// probability `begin`, and a bad state good with probability `end`; packets in the bad state
    /// are lost.
    Burst {
        /// The probability of the change from good to bad.
        begin: f64,
        /// The probability of the change from bad to good.
        end: f64,
    },
}

/// The variation of the propagation delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    /// The largest additional delay; it is distributed uniformly from zero.
    pub up_to: Nanos,
    /// Whether a packet may overtake another.
    pub reorders: bool,
}

/// The configuration of a link.
pub struct LinkConfig {
    /// The capacity of the link.
    pub capacity: Capacity,
    /// The propagation delay.
    pub delay: Nanos,
    /// The queue; a link of unlimited capacity needs none.
    pub queue: Option<Queue>,
    /// The packet loss of the wire.
    pub loss: Loss,
    /// The variation of the delay.
    pub jitter: Jitter,
}

impl LinkConfig {
    fn check(&self) -> Result<(), SetupError> {
        let refuse = |what, must| Err(SetupError::Range { what, must });
        self.capacity.check()?;
        if self.queue.is_none() && self.capacity != Capacity::Unlimited {
            return Err(SetupError::NoQueue);
        }
        if self.delay.max(self.jitter.up_to) > LONGEST {
            return refuse("a link's delay and its jitter", "at most 100 s each");
        }
        let some = |p: f64| p > 0.0 && p <= 1.0;
        match self.loss {
            Loss::Random(p) if !(0.0..1.0).contains(&p) => {
                refuse("a link's loss", "a probability below one: nothing would arrive")
            }
            Loss::Burst { begin, end } if !((0.0..=1.0).contains(&begin) && some(end)) => {
                refuse("a link's bursts of loss", "two probabilities, that of an end above zero")
            }
            _ => Ok(()),
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
    delay: Nanos,
    queue: Option<Queue>,
    loss: Loss,
    jitter: Jitter,
    random: Random,
    bad: bool,
    last_arrival: Nanos,
    /// The packets on the wire, if they do not overtake each other.
    pub(crate) in_order: Option<InOrder>,
    /// Whether an event will serve the link when the wire is free.
    pub(crate) awaited: bool,
    pub(crate) counters: LinkCounters,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, random: Random) -> Result<Self, SetupError> {
        config.check()?;
        let LinkConfig { capacity, delay, queue, loss, jitter } = config;
        Ok(Self {
            wire: Wire::new(capacity),
            delay,
            queue,
            loss,
            jitter,
            random,
            bad: false,
            last_arrival: Nanos::ZERO,
            in_order: (!(jitter.reorders && jitter.up_to > Nanos::ZERO)).then(InOrder::default),
            awaited: false,
            counters: LinkCounters::default(),
        })
    }

    /// Enqueues an arriving packet, or sends it at once on a link without a queue.
    pub(crate) fn enter(
        &mut self,
        now: Nanos,
        packet: Queued,
        drops: &mut dyn DropSink<Queued>,
    ) -> Option<Departure> {
        self.counters.received += 1;
        self.counters.inside += 1;
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
        self.delay = delay.min(LONGEST);
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
        if self.is_lost() {
            self.counters.lost += 1;
            self.counters.inside -= 1;
            return Departure { packet, arrival: None };
        }
        let mut arrival = end.saturating_add(self.delay);
        if self.jitter.up_to > Nanos::ZERO {
            arrival = arrival.saturating_add(Nanos(self.random.below(self.jitter.up_to.0)));
        }
        if self.in_order.is_some() {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        Departure { packet, arrival: Some(arrival) }
    }

    fn is_lost(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Random(p) => self.random.chance(p),
            Loss::Burst { begin, end } => {
                let change = if self.bad { end } else { begin };
                let lost = self.bad;
                self.bad ^= self.random.chance(change);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests;
