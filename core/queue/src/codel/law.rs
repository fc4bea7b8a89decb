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
    /// Follows 1 / sqrt(count), as Linux does.
    inverse_root: InverseRoot,
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
        inverse_root: InverseRoot::ONE,
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
                self.inverse_root.step(self.count);
                let gap = self.inverse_root.of(params.interval);
                let drop_next = self.drop_next.saturating_add(gap);
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
        if last > 1 && recent {
            self.count = last;
            self.inverse_root.step(last);
        } else {
            (self.count, self.inverse_root) = (1, InverseRoot::ONE);
        }
        self.last_count = self.count;
        self.drop_next = now.saturating_add(self.inverse_root.of(params.interval));
        self.dropping = true;
    }
}

/// An estimate of 1 / sqrt(n) in units of 2^-16, which one Newton step moves towards its value.
///
/// The estimate carries over from drop to drop and from episode to episode, so that after a jump of
/// n the gaps between drops are shorter than the law's until it has caught up. Linux does the same
/// (`codel_Newton_step` in `codel_impl.h`), and at round trips of 100 ms this is seen in the number
/// of drops.
#[derive(Clone, Copy, Debug)]
struct InverseRoot(u16);

impl InverseRoot {
    /// The value for n = 1.
    const ONE: Self = Self(u16::MAX);

    /// Takes one step towards 1 / sqrt(`n`): x becomes x (3 - n x^2) / 2.
    ///
    /// From three times the value on the step leads away, to zero or below, where Linux's wraps to
    /// any value. Then the value itself is taken.
    fn step(&mut self, n: u32) {
        let x = u64::from(self.0) << 16;
        let n_x_squared = u64::from(n).saturating_mul((x * x) >> 32);
        self.0 = match (3_u64 << 32).checked_sub(n_x_squared) {
            Some(three_less @ 1..) => (((three_less >> 2) * x) >> 47) as u16,
            _ => (u64::from(u32::MAX) / u64::from(n.max(1))).isqrt() as u16,
        }
        .max(1);
    }

    /// Returns this share of `interval`, rounded down to the nanosecond.
    fn of(self, interval: Nanos) -> Nanos {
        Nanos((interval.0 * u64::from(self.0)) >> 16)
    }
}

impl Params {
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
