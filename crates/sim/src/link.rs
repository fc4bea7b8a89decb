//! Links: a queue in front of a wire, and what the wire does to packets.

use forebay_queue::{DropSink, Qdisc};
use forebay_units::{Bytes, Nanos, Rate};

use crate::packet::Queued;
use crate::random::Random;

/// A queueing discipline of this simulator.
pub type Queue = Box<dyn Qdisc<Queued>>;

/// How fast a link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Packets take no time and never wait.
    Unlimited,
    /// One rate, above zero.
    Constant(Rate),
    /// From each instant on the rate beside it, in ascending order; before the first, the first. The
    /// last rate is above zero.
    Steps(Vec<(Nanos, Rate)>),
}

impl Capacity {
    /// When a packet of `len` that starts at `start` is through.
    fn end(&self, start: Nanos, len: Bytes) -> Nanos {
        match self {
            Self::Unlimited => start,
            Self::Constant(rate) => start.saturating_add(rate.time_for(len)),
            Self::Steps(steps) => {
                // In billionths of a bit, of which rates in bit/s and nanoseconds are factors.
                let mut left = u128::from(len.0) * 8_000_000_000;
                let mut now = start;
                let first = steps.partition_point(|s| s.0 <= start).saturating_sub(1);
                for (i, (_, rate)) in steps.iter().enumerate().skip(first) {
                    let until = steps.get(i + 1).map_or(Nanos::MAX, |s| s.0);
                    let bps = u128::from(rate.as_bps());
                    let room = bps * u128::from(until.saturating_sub(now).0);
                    if room >= left {
                        let time = left.div_ceil(bps.max(1));
                        return now.saturating_add(Nanos(u64::try_from(time).unwrap_or(u64::MAX)));
                    }
                    left -= room;
                    now = until;
                }
                Nanos::MAX
            }
        }
    }

    fn is_possible(&self) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Constant(rate) => *rate > Rate::ZERO,
            Self::Steps(steps) => {
                steps.is_sorted_by(|a, b| a.0 < b.0)
                    && steps.last().is_some_and(|s| s.1 > Rate::ZERO)
            }
        }
    }
}

/// What the wire loses, after the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// Packets at a link. `received = sent + dropped + lost + inside` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// That came.
    pub received: u64,
    /// That reached the other end.
    pub sent: u64,
    /// That the queue dropped.
    pub dropped: u64,
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

pub(crate) struct Link {
    capacity: Capacity,
    delay: Nanos,
    queue: Option<Queue>,
    loss: Loss,
    jitter: Jitter,
    random: Random,
    bad: bool,
    /// When the wire is free again.
    free_at: Nanos,
    last_arrival: Nanos,
    /// Whether somebody will come when the wire is free.
    pub(crate) awaited: bool,
    pub(crate) counters: LinkCounters,
}

impl Link {
    /// `None` if it would never let a packet through.
    pub(crate) fn new(config: LinkConfig, random: Random) -> Option<Self> {
        let LinkConfig { capacity, delay, queue, loss, jitter } = config;
        let has_queue = queue.is_some() || capacity == Capacity::Unlimited;
        (capacity.is_possible() && has_queue).then(|| Self {
            capacity,
            delay,
            queue,
            loss,
            jitter,
            random,
            bad: false,
            free_at: Nanos::ZERO,
            last_arrival: Nanos::ZERO,
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

    /// The next packet that goes on the wire now.
    pub(crate) fn serve(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink<Queued>,
    ) -> Option<Departure> {
        if self.free_at > now {
            return None;
        }
        let packet = self.queue.as_mut()?.dequeue(now, drops)?;
        Some(self.depart(now, packet))
    }

    /// When to serve again, if anything waits.
    pub(crate) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        let queue = self.queue.as_ref()?;
        if self.free_at > now {
            return (queue.backlog().packets > 0).then_some(self.free_at);
        }
        queue.next_event(now)
    }

    fn depart(&mut self, now: Nanos, packet: Queued) -> Departure {
        let end = self.capacity.end(now, Bytes(u64::from(packet.len)));
        self.free_at = end;
        if self.is_lost() {
            self.counters.lost += 1;
            self.counters.inside -= 1;
            return Departure { packet, arrival: None };
        }
        let mut arrival = end.saturating_add(self.delay);
        if self.jitter.up_to > Nanos::ZERO {
            arrival = arrival.saturating_add(Nanos(self.random.below(self.jitter.up_to.0)));
            if !self.jitter.reorders {
                arrival = arrival.max(self.last_arrival);
                self.last_arrival = arrival;
            }
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
mod tests {
    use forebay_queue::{DropReason, Ecn, Fifo, Limit, fifo};

    use super::*;

    fn link(capacity: Capacity, loss: Loss) -> Link {
        let limit = Limit::packets(2);
        let queue: Queue = Box::new(Fifo::new(fifo::Config { limit }).unwrap());
        let config = LinkConfig {
            capacity,
            delay: Nanos(1_000_000),
            queue: Some(queue),
            loss,
            jitter: Jitter::default(),
        };
        Link::new(config, Random::new(1, 1)).unwrap()
    }

    fn packet(id: u32) -> Queued {
        Queued { id, flow_hash: 0, len: 1000, ecn: Ecn::NotEct, arrived: Nanos::ZERO }
    }

    /// 8 Mbit/s: 1000 B take a millisecond.
    #[test]
    fn packets_follow_each_other() {
        let mut dropped = Vec::new();
        let mut drops = |p: Queued, r: DropReason| dropped.push((p.id, r));
        let mut link = link(Capacity::Constant(Rate::from_mbps(8)), Loss::None);
        assert!(link.enter(Nanos(0), packet(0), &mut drops).is_none());
        let first = link.serve(Nanos(0), &mut drops).unwrap();
        assert_eq!(first.arrival, Some(Nanos(2_000_000)));
        for id in 1..4 {
            link.enter(Nanos(10), packet(id), &mut drops);
        }
        assert!(link.serve(Nanos(10), &mut drops).is_none());
        assert_eq!(link.next_event(Nanos(10)), Some(Nanos(1_000_000)));
        let second = link.serve(Nanos(1_000_000), &mut drops).unwrap();
        assert_eq!((second.packet.id, second.arrival), (1, Some(Nanos(3_000_000))));
        assert_eq!(dropped, [(3, DropReason::PacketLimit)]);
    }

    #[test]
    fn a_rate_may_change_under_a_packet() {
        let mbps = Rate::from_mbps;
        let steps =
            vec![(Nanos(0), mbps(8)), (Nanos(500_000), Rate::ZERO), (Nanos(2_000_000), mbps(16))];
        let capacity = Capacity::Steps(steps);
        assert!(capacity.is_possible());
        // Half of it in the first half millisecond, the rest at double the rate after the outage.
        assert_eq!(capacity.end(Nanos(0), Bytes(1000)), Nanos(2_250_000));
        assert_eq!(capacity.end(Nanos(9_000_000), Bytes(1000)), Nanos(9_500_000));
        assert!(!Capacity::Steps(vec![(Nanos(0), Rate::ZERO)]).is_possible());
        assert!(!Capacity::Constant(Rate::ZERO).is_possible());
    }

    #[test]
    fn bursts_are_as_long_and_as_many_as_said() {
        let mut link =
            link(Capacity::Constant(Rate::from_mbps(8)), Loss::Burst { begin: 0.01, end: 0.25 });
        let lost: Vec<_> = (0..200_000).map(|_| link.is_lost()).collect();
        let total = lost.iter().filter(|l| **l).count();
        let bursts = lost.windows(2).filter(|w| w[1] && !w[0]).count();
        // 0.01 / 0.26 of the time bad, four packets a burst.
        assert!((7_000..8_400).contains(&total), "{total}");
        let mean = total as f64 / bursts as f64;
        assert!((3.6..4.4).contains(&mean), "{mean}");
    }
}
