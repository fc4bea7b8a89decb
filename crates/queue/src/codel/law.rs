//! CoDel's control law and its state machine, for one queue.

use forebay_units::{Bytes, Nanos};

use super::Params;
use crate::ring::Timed;
use crate::{DropReason, DropSink, Ecn, Packet};

/// The queue that CoDel controls.
pub(crate) trait Queue<P> {
    /// Removes and returns the packet at the head.
    fn pop(&mut self) -> Option<Timed<P>>;
    /// Returns the bytes that still wait, for the comparison with the MTU.
    fn bytes(&self) -> Bytes;
}

/// CoDel's state of one queue (RFC 8289 section 5.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// When the sojourn will have been above target for a whole interval; zero while it is below.
    first_above: Nanos,
    /// The time of the next drop; outside the dropping state, when it would have been.
    drop_next: Nanos,
    /// The number of drops since the dropping state began.
    count: u32,
    /// The value of `count` when the dropping state last began.
    last_count: u32,
    /// Whether the queue is in the dropping state.
    dropping: bool,
}

/// A packet taken from the head, and whether CoDel may drop it.
struct Taken<P> {
    head: Timed<P>,
    /// Whether the sojourn time has been above target for an interval: a standing queue.
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

    /// Returns the next packet to send (RFC 8289 section 5.5).
    ///
    /// The last packet is never dropped, since less than an MTU waits behind it. A queue with
    /// packets therefore returns one, unless [`Queue::bytes`] counts the packets of other queues as
    /// well.
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

    /// Counts `packets` that were dropped at the limit as drops of the control law, as in Linux's
    /// fq_codel, so that signals become more frequent. Outside the dropping state they count
    /// towards the last episode.
    pub(crate) fn overflowed(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Takes the packet at the head and checks its sojourn time (RFC 8289 section 5.6).
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

    /// Enters the dropping state. If the last episode ended within 16 intervals, drops continue at
    /// the rate that controlled the queue then (RFC 8289 section 5.5).
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
    /// Returns the time from drop number `count` to the next: interval / sqrt(count) (RFC 8289
    /// section 5.6), rounded down to the nanosecond.
    ///
    /// Integers give the same result on every machine. The square of the interval fits into 64
    /// bits, since [`Params::MAX_INTERVAL`] is below 2^32.
    pub(super) fn spacing(&self, count: u32) -> Nanos {
        Nanos((self.interval.0 * self.interval.0 / u64::from(count.max(1))).isqrt())
    }

    /// Signals congestion to the sender: returns `packet` marked, or drops it.
    fn signal<P: Packet>(&self, mut packet: P, drops: &mut dyn DropSink<P>) -> Option<P> {
        match packet.ecn() {
            Ecn::Ect0 | Ecn::Ect1 if self.ecn => packet.set_ce(),
            // An earlier queue has already marked the packet, so the sender will slow down.
            Ecn::Ce if self.ecn => {}
            _ => {
                drops.dropped(packet, DropReason::Codel);
                return None;
            }
        }
        Some(packet)
    }

    /// Returns a packet that the control law does not drop, marked if it exceeds a threshold.
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
