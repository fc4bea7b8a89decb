//! Links: a queue in front of a wire, and what the wire does to packets.

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

/// The longest delay: longer than any path's, even by way of the moon.
const LONGEST: Nanos = Nanos::from_secs(100);

/// Bytes of a full packet.
const FULL: u64 = 1514;

/// A queueing discipline of this simulator.
pub type Queue = Box<dyn Qdisc<Queued>>;

/// What the wire loses, after the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Nothing.
    #[default]
    None,
    /// Each packet with this probability.
    Random(f64),
    /// In bursts (Gilbert's model): a good packet is followed by a bad state with probability
    /// `begin`, which ends after each packet with probability `end`; packets in it are lost.
    Burst {
        /// From good to bad.
        begin: f64,
        /// From bad to good.
        end: f64,
    },
}

/// How propagation delay varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    /// Up to so much more, uniformly.
    pub up_to: Nanos,
    /// Whether a packet may overtake another.
    pub reorders: bool,
}

/// How a link is set up.
pub struct LinkConfig {
    /// How fast it is.
    pub capacity: Capacity,
    /// Propagation delay.
    pub delay: Nanos,
    /// Where packets wait; nothing waits at a link of unlimited capacity.
    pub queue: Option<Queue>,
    /// What it loses.
    pub loss: Loss,
    /// How its delay varies.
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

/// Packets at a link. `received = sent + dropped + lost + inside` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// That came.
    pub received: u64,
    /// That reached the other end.
    pub sent: u64,
    /// That the queue dropped.
    pub dropped: u64,
    /// Of those that left the queue, how many it marked: they came without the mark.
    pub marked: u64,
    /// That the wire lost.
    pub lost: u64,
    /// That wait in the queue or are on the wire.
    pub inside: u64,
}

/// A packet that has gone on the wire.
pub(crate) struct Departure {
    pub(crate) packet: Queued,
    /// When it reaches the other end; `None` if it never does.
    pub(crate) arrival: Option<Nanos>,
}

/// Packets on a wire in the order of their arrival. Only the first is an event, so that the event
/// queue does not grow with what links hold.
#[derive(Default)]
pub(crate) struct InOrder {
    pub(crate) packets: VecDeque<(Nanos, u32)>,
    /// Whether the first one's arrival is an event already.
    pub(crate) awaited: bool,
}

pub(crate) struct Link {
    wire: Wire,
    delay: Nanos,
    queue: Option<Queue>,
    loss: Loss,
    jitter: Jitter,
    random: Random,
    bad: bool,
    last_arrival: Nanos,
    /// Where packets do not overtake each other: what is on the wire.
    pub(crate) in_order: Option<InOrder>,
    /// Whether somebody will come when the wire is free.
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

    /// A packet comes. Returns it on its way if it did not have to queue.
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

    /// Full packets that the queue has room for.
    pub(crate) fn room(&self) -> u64 {
        let room = self.queue.as_ref().map_or(Room::UNLIMITED, |queue| queue.room(0));
        room.packets.min(room.bytes.0 / FULL)
    }

    /// From now on packets take `delay`. Without `reorders` none overtakes one that is on its way.
    pub(crate) fn set_delay(&mut self, delay: Nanos) {
        self.delay = delay.min(LONGEST);
    }

    /// Whether the wire is busy, and somebody will come when it is free.
    #[inline]
    pub(crate) fn waits(&self, now: Nanos) -> bool {
        self.awaited && self.wire.is_busy(now)
    }

    /// The next packet that goes on the wire now.
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

    /// When to serve again, if anything waits.
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
