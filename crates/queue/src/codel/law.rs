//! The control law and the state machine around it, for one queue.

use forebay_units::{Bytes, Nanos};

use super::Params;
use crate::ring::Timed;
use crate::{DropReason, DropSink, Ecn, Packet};

/// CoDel's view of the queue it keeps short.
pub(crate) trait Queue<P> {
    /// Takes the packet at the head.
    fn pop(&mut self) -> Option<Timed<P>>;
    /// What still waits, to be compared with an MTU.
    fn bytes(&self) -> Bytes;
}

/// What CoDel remembers of a queue (RFC 8289 section 5.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// When the sojourn will have been above target for a whole interval; zero while it is below.
    first_above: Nanos,
    /// When to drop next, or when the next drop would have been.
    drop_next: Nanos,
    /// Drops since dropping began.
    count: u32,
    /// `count` when dropping last began.
    last_count: u32,
    /// Whether the queue is being drained by drops.
    dropping: bool,
}

/// A packet taken from the head, and what its sojourn says.
struct Taken<P> {
    head: Timed<P>,
    /// The sojourn has been above target for an interval: a drop is in order.
    standing: bool,
}

impl State {
    pub(crate) const NEW: Self = Self {
        first_above: Nanos::ZERO,
        drop_next: Nanos::ZERO,
        count: 0,
        last_count: 0,
        dropping: false,
    };

    /// The next packet to send (RFC 8289 section 5.5).
    ///
    /// The last packet is never dropped, since what is then left is less than an MTU. So a queue
    /// that has packets gives one, unless [`Queue::bytes`] counts those of other queues too.
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        now: Nanos,
        params: &Params,
        queue: &mut impl Queue<P>,
        drops: &mut dyn DropSink<P>,
    ) -> Option<P> {
        let mut taken = self.take(now, params, queue)?;
        if self.dropping {
            self.dropping = taken.standing;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                let drop_next = self.drop_next.saturating_add(params.spacing(self.count));
                if let Some(marked) = params.signal(taken.head.packet, drops) {
                    self.drop_next = drop_next;
                    return Some(marked);
                }
                taken = self.take(now, params, queue)?;
                if taken.standing {
                    self.drop_next = drop_next;
                } else {
                    self.dropping = false;
                }
            }
        } else if taken.standing {
            self.start_dropping(now, params);
            if let Some(marked) = params.signal(taken.head.packet, drops) {
                return Some(marked);
            }
            taken = self.take(now, params, queue)?;
        }
        Some(params.deliver(now, taken.head))
    }

    /// The queue lost `packets` for want of room: its senders are told harder from now on, as in
    /// Linux's fq_codel. Outside an episode of drops they count towards the last one.
    pub(crate) fn overflowed(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Takes the head and judges its sojourn (RFC 8289 section 5.6).
    fn take<P>(
        &mut self,
        now: Nanos,
        params: &Params,
        queue: &mut impl Queue<P>,
    ) -> Option<Taken<P>> {
        let Some(head) = queue.pop() else {
            self.first_above = Nanos::ZERO;
            return None;
        };
        let good = head.sojourn(now) < params.target || queue.bytes() <= params.mtu;
        let mut standing = false;
        if good {
            self.first_above = Nanos::ZERO;
        } else if self.first_above == Nanos::ZERO {
            self.first_above = now.saturating_add(params.interval);
        } else {
            standing = now >= self.first_above;
        }
        Some(Taken { head, standing })
    }

    /// Begins to drop, at the rate that controlled the queue last time if that was recently (RFC
    /// 8289 section 5.5: within 16 intervals).
    fn start_dropping(&mut self, now: Nanos, params: &Params) {
        let last = self.count - self.last_count;
        let recent = now.saturating_sub(self.drop_next) < params.interval * 16;
        self.count = if last > 1 && recent { last } else { 1 };
        self.last_count = self.count;
        self.drop_next = now.saturating_add(params.spacing(self.count));
        self.dropping = true;
    }
}

impl Params {
    /// The time from drop number `count` to the next: interval / sqrt(count) (RFC 8289 section
    /// 5.6), rounded down to the nanosecond. Integers, so it is the same on every machine; the
    /// interval's square fits since [`Params::MAX_INTERVAL`] is below 2^32.
    pub(super) fn spacing(&self, count: u32) -> Nanos {
        Nanos((self.interval.0 * self.interval.0 / u64::from(count.max(1))).isqrt())
    }

    /// Tells the sender to slow down: gives `packet` back marked, or drops it.
    fn signal<P: Packet>(&self, mut packet: P, drops: &mut dyn DropSink<P>) -> Option<P> {
        match packet.ecn() {
            Ecn::Ect0 | Ecn::Ect1 if self.ecn => packet.set_ce(),
            // Marked already, by a queue before this one: the sender will slow down.
            Ecn::Ce if self.ecn => {}
            _ => {
                drops.dropped(packet, DropReason::Codel);
                return None;
            }
        }
        Some(packet)
    }

    /// Lets a packet go that the control law did not ask for.
    fn deliver<P: Packet>(&self, now: Nanos, head: Timed<P>) -> P {
        let late = |limit: Option<Nanos>| limit.is_some_and(|limit| head.sojourn(now) > limit);
        let mark = match head.packet.ecn() {
            Ecn::Ect0 => late(self.ce_threshold),
            Ecn::Ect1 => late(self.ce_threshold) || late(self.l4s_threshold),
            Ecn::NotEct | Ecn::Ce => false,
        };
        let mut packet = head.packet;
        if mark {
            packet.set_ce();
        }
        packet
    }
}
