//! A queue in front of a wire of an exact capacity. Times are those that packets carry; they do not
//! depend on when this process runs.

use forebay_queue::{Backlog, DropSink, Packet, Qdisc};
use forebay_units::Nanos;

use super::wire::RunWire;

/// A queue in front of a wire. The start and end of each packet on the wire are computed, not
/// observed: a late wake-up delays delivery, but changes neither the rate nor the recorded delay.
pub(super) struct Bottleneck<Q> {
    qdisc: Q,
    wire: RunWire,
    /// The time from which the first packet in the queue can leave, if the wire is ready.
    since: Nanos,
}

/// A packet that has left for the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure<P> {
    pub(super) packet: P,
    /// The time of its first bit on the wire, at which its wait in the queue ends.
    pub(super) start: Nanos,
    /// The time of its last bit on the wire.
    pub(super) end: Nanos,
}

impl<Q> Bottleneck<Q> {
    pub(super) fn new(qdisc: Q, wire: RunWire) -> Self {
        Self { qdisc, wire, since: Nanos::ZERO }
    }

    /// Sets the start of the run.
    pub(super) fn start_at(&mut self, start: Nanos) {
        self.wire.start_at(start);
    }

    /// Takes a packet that arrives. The caller must have taken out all packets that depart until
    /// `now`.
    pub(super) fn arrive<P: Packet>(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>)
    where
        Q: Qdisc<P>,
    {
        if self.qdisc.backlog().packets == 0 {
            self.since = self.since.max(now);
        }
        self.qdisc.enqueue(now, packet, drops);
    }

    /// Returns the next packet that left for the wire by `now`.
    pub(super) fn depart<P: Packet>(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink<P>,
    ) -> Option<Departure<P>>
    where
        Q: Qdisc<P>,
    {
        if self.qdisc.backlog().packets == 0 {
            return None;
        }
        let start = self.wire.ready(self.since);
        if start > now {
            return None;
        }
        let packet = self.qdisc.dequeue(start, drops)?;
        let end = self.wire.send(start, packet.len());
        self.since = start;
        Some(Departure { packet, start, end })
    }

    /// Returns the time at which the next packet leaves for the wire.
    pub(super) fn next_event<P: Packet>(&mut self) -> Option<Nanos>
    where
        Q: Qdisc<P>,
    {
        (self.qdisc.backlog().packets > 0).then(|| self.wire.ready(self.since))
    }

    pub(super) fn backlog<P: Packet>(&self) -> Backlog
    where
        Q: Qdisc<P>,
    {
        self.qdisc.backlog()
    }
}

#[cfg(test)]
mod tests {
    use forebay_queue::{DropReason, Ecn, Fifo, Limit, fifo};
    use forebay_sim::Capacity;
    use forebay_units::{Bytes, Rate};

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Sized(u64);

    impl Packet for Sized {
        fn len(&self) -> Bytes {
            Bytes(self.0)
        }
        fn flow_hash(&self) -> u32 {
            0
        }
        fn ecn(&self) -> Ecn {
            Ecn::NotEct
        }
        fn set_ce(&mut self) {}
    }

    /// Creates a bottleneck of 8 Mbit/s, one byte per microsecond.
    fn bottleneck(limit: u64) -> Bottleneck<Fifo<Sized>> {
        let limit = Limit::bytes(Bytes(limit));
        let rate = Rate::from_mbps(8);
        let wire = RunWire::new(rate, Capacity::Constant(rate)).unwrap();
        Bottleneck::new(Fifo::new(fifo::Config { limit }).unwrap(), wire)
    }

    const fn us(n: u64) -> Nanos {
        Nanos::from_micros(n)
    }

    #[test]
    fn a_late_wake_up_changes_no_recorded_time() {
        let mut none = |_, _: DropReason| panic!("nothing is dropped");
        let mut b = bottleneck(10_000);
        for len in [100, 200, 300] {
            b.arrive(us(50), Sized(len), &mut none);
        }
        // No departure is taken for one second.
        let now = us(1_000_050);
        let gone: Vec<_> = std::iter::from_fn(|| b.depart(now, &mut none)).collect();
        let times: Vec<_> = gone.iter().map(|d| (d.start, d.end)).collect();
        assert_eq!(times, [(us(50), us(150)), (us(150), us(350)), (us(350), us(650))]);
        // The wire was idle in the meantime, so the next packet starts on arrival.
        b.arrive(now, Sized(10), &mut none);
        assert_eq!(b.next_event::<Sized>(), Some(now));
        assert_eq!(b.depart(now, &mut none).map(|d| d.start), Some(now));
    }

    #[test]
    fn a_busy_wire_makes_packets_wait_and_a_full_queue_drops() {
        let mut dropped = Vec::new();
        let mut b = bottleneck(150);
        let mut drops = |p: Sized, _| dropped.push(p.0);
        b.arrive(us(0), Sized(100), &mut drops);
        assert!(b.depart(us(0), &mut drops).is_some(), "on the wire at once");
        b.arrive(us(10), Sized(100), &mut drops);
        b.arrive(us(20), Sized(100), &mut drops);
        assert!(b.depart(us(99), &mut drops).is_none(), "the wire is busy");
        assert_eq!(b.depart(us(100), &mut drops).map(|d| d.start), Some(us(100)));
        assert_eq!(b.next_event::<Sized>(), None);
        assert_eq!(dropped, [100], "150 bytes hold one packet of 100");
    }
}
