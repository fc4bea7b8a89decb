//! A first-in-first-out queue with a limit.

use forebay_units::Nanos;

use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropSink, Limit, Packet, Qdisc, Room};

/// The configuration of a [`Fifo`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The limit of the queue; 1000 packets by default, see [`Limit`].
    pub limit: Limit,
}

/// A queue that serves packets in the order of arrival and drops those past its [`Limit`].
#[derive(Clone, Debug, Hash)]
pub struct Fifo<P> {
    queue: Ring<P>,
}

impl<P: Packet> Fifo<P> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Fails if the limit admits no packet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self { queue: Ring::new(config.limit)? })
    }
}

impl<P: Packet> Qdisc<P> for Fifo<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        self.queue.push(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        self.queue.expire(now, drops);
        self.queue.pop().map(|head| head.packet)
    }

    fn peek(&self) -> Option<&P> {
        self.queue.front()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn probe(&self, _now: Nanos, packet: &P) -> bool {
        self.queue.fits(packet)
    }

    fn room(&self, _class: u8) -> Room {
        self.queue.room()
    }

    /// Returns `now` while packets wait, so that packets past a time limit are dropped as well.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }
}
