//! Packet storage of single-queue disciplines: a ring buffer in order of arrival, with a limit.

use alloc::collections::VecDeque;

use forebay_units::{Bytes, Nanos};

use crate::{Backlog, ConfigError, DropReason, DropSink, Limit, Packet, Room};

/// A packet and the time at which it was enqueued.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Timed<P> {
    pub(crate) packet: P,
    pub(crate) enqueued: Nanos,
}

impl<P> Timed<P> {
    pub(crate) fn sojourn(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.enqueued)
    }
}

/// A ring buffer of packets with a limit.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Ring<P> {
    limit: Limit,
    packets: VecDeque<Timed<P>>,
    bytes: Bytes,
}

impl<P: Packet> Ring<P> {
    pub(crate) fn new(limit: Limit) -> Result<Self, ConfigError> {
        limit.check()?;
        Ok(Self { limit, packets: VecDeque::new(), bytes: Bytes::ZERO })
    }

    /// Appends `packet` if it fits, or drops it. Packets past the time limit make room first.
    pub(crate) fn push(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        let len = packet.len();
        let mut refused = self.limit.refuses(self.backlog(), len);
        while refused.is_some() && self.drop_expired(now, drops) {
            refused = self.limit.refuses(self.backlog(), len);
        }
        match refused {
            Some(reason) => drops.dropped(packet, reason),
            None => self.append(now, packet),
        }
    }

    /// Appends `packet` without a check of the limit; the caller has checked that it fits.
    #[inline]
    pub(crate) fn append(&mut self, now: Nanos, packet: P) {
        self.bytes += packet.len();
        self.packets.push_back(Timed { packet, enqueued: now });
    }

    /// Drops the packets past the time limit. They are all at the head, since packets are in order
    /// of arrival.
    pub(crate) fn expire(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) {
        while self.drop_expired(now, drops) {}
    }

    fn drop_expired(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> bool {
        if !self.packets.front().is_some_and(|head| self.limit.expired(head.sojourn(now))) {
            return false;
        }
        if let Some(head) = self.pop() {
            drops.dropped(head.packet, DropReason::TimeLimit);
        }
        true
    }

    pub(crate) fn pop(&mut self) -> Option<Timed<P>> {
        let head = self.packets.pop_front()?;
        self.bytes -= head.packet.len();
        Some(head)
    }

    pub(crate) fn front(&self) -> Option<&P> {
        self.packets.front().map(|head| &head.packet)
    }

    /// Returns when the packet at the head was enqueued.
    #[inline]
    pub(crate) fn head_enqueued(&self) -> Option<Nanos> {
        self.packets.front().map(|head| head.enqueued)
    }

    /// Returns how long the packet at the head has waited, or zero if the ring is empty.
    #[inline]
    pub(crate) fn head_sojourn(&self, now: Nanos) -> Nanos {
        self.packets.front().map_or(Nanos::ZERO, |head| head.sojourn(now))
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    pub(crate) fn room(&self) -> Room {
        self.limit.room(self.backlog())
    }

    pub(crate) fn fits(&self, packet: &P) -> bool {
        self.limit.refuses(self.backlog(), packet.len()).is_none()
    }
}
