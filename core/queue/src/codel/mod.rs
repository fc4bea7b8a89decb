//! CoDel: a queue kept short by the sojourn time of its packets (RFC 8289).
//!
//! A queue that drains within an interval absorbs a burst. A queue whose *lowest* sojourn time
//! stays above target is a standing queue and only adds delay. While it persists, packets are
//! dropped (or marked) at the head with increasing frequency. The gap after the n-th drop is
//! interval / sqrt(n), which makes the throughput of a TCP sender fall linearly.
//!
//! Compared with Linux (6.12, `codel_impl.h`), rule by rule:
//!
//! | | Linux 6.12 | here |
//! |---|---|---|
//! | defaults: target 5 ms, interval 100 ms, 1000 packets, no ECN | | the same |
//! | time | units of 1024 ns; "above for an interval" if later than, not at, its end | nanoseconds; at its end (RFC 8289 section 5.6) |
//! | no drop while at most this waits | the device's MTU and header, 1514 | [`Params::mtu`], the same |
//! | gap after drop n | interval/sqrt(n) by one Newton step in 16 bits from the gap before: 100, 50, 56, 49 ms ... | the same; where the step would leave the range, which needs n to grow more than threefold at once, exact |
//! | dropping again within 16 intervals | from the drops of the last episode; the first gap is one Newton step from the last one of that episode, so shorter than the law's | the same |
//! | ECN: a packet that is already marked | passes as marked | the same |
//! | ECN: a packet that cannot be marked | dropped, and the next one is checked | the same |
//! | `ce_threshold` | ECN-capable packets, or those chosen by a mask of the DS field | [`Params::ce_threshold`], or [`Params::l4s_threshold`] for ECT(1) |
//!
//! RFC 8289 section 5.6 has exact gaps, 100, 71, 58, 50 ms. At round trips of 100 ms the difference
//! is seen in the number of drops.

mod law;

use forebay_units::{Bytes, Nanos};

pub(crate) use law::{Queue, State};

use crate::error::within;
use crate::ring::{Ring, Timed};
use crate::{Backlog, ConfigError, DropSink, Limit, Packet, Qdisc, Room};

/// The parameters of CoDel's control law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The sojourn time that is acceptable permanently; 5 ms by default (RFC 8289 section 4.3: 5 to
    /// 10 % of the interval). A target above the interval is allowed, since some emulations use
    /// one: CoDel then only drops packets that waited that long.
    pub target: Nanos,
    /// How long the sojourn time must stay above target before the first drop, about the longest
    /// round-trip time expected; 100 ms by default (RFC 8289 section 4.2).
    pub interval: Nanos,
    /// Marks ECN-capable packets instead of dropping them; off by default, as in Linux's codel.
    pub ecn: bool,
    /// Marks every ECN-capable packet that waited longer than this, independent of the control law;
    /// off by default. For senders that expect a shallow step marking (DCTCP).
    pub ce_threshold: Option<Nanos>,
    /// Marks every ECT(1) packet that waited longer than this, independent of the control law; off
    /// by default. The step for L4S senders in a separate queue (RFC 9331 section 5.4), where the
    /// control law handles classic ECN.
    pub l4s_threshold: Option<Nanos>,
    /// The backlog up to which no packet is dropped, so that a slow link stays busy; a full
    /// Ethernet frame of 1514 bytes by default (RFC 8289 section 4.1).
    pub mtu: Bytes,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            target: Nanos::from_millis(5),
            interval: Nanos::from_millis(100),
            ecn: false,
            ce_threshold: None,
            l4s_threshold: None,
            mtu: Bytes(1514),
        }
    }
}

impl Params {
    /// The longest interval: four seconds, more than any round-trip time.
    pub const MAX_INTERVAL: Nanos = Nanos::from_secs(4);

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("interval", self.interval.0, 1, Self::MAX_INTERVAL.0)?;
        within("target", self.target.0, 1, Self::MAX_INTERVAL.0)
    }
}

/// The configuration of a [`Codel`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The limit of the queue; 1000 packets by default, as in Linux. The backlog stays well below
    /// it unless traffic ignores congestion signals.
    pub limit: Limit,
    /// The parameters of the control law.
    pub params: Params,
}

/// A first-in-first-out queue controlled by CoDel.
#[derive(Clone, Debug)]
pub struct Codel<P> {
    queue: Ring<P>,
    params: Params,
    state: State,
}

impl<P: Packet> Codel<P> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Fails if the limit admits no packet, or the interval or the target is zero or above
    /// [`Params::MAX_INTERVAL`].
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.params.check()?;
        Ok(Self { queue: Ring::new(config.limit)?, params: config.params, state: State::NEW })
    }
}

impl<P: Packet> Queue<P> for Ring<P> {
    fn pop(&mut self) -> Option<Timed<P>> {
        Self::pop(self)
    }

    fn bytes(&self) -> Bytes {
        self.backlog().bytes
    }
}

impl<P: Packet> Qdisc<P> for Codel<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        self.queue.push(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        self.queue.expire(now, drops);
        self.state.dequeue(now, &self.params, &mut self.queue, drops)
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
