//! CoDel: a queue kept short by the time its packets wait (RFC 8289).
//!
//! A queue that drains within an interval is a burst and does good; one whose *lowest* wait stays
//! above target is standing and only adds delay. While it stands, packets are dropped (or marked)
//! at the head, ever faster: the gap after the n-th drop is interval / sqrt(n), which makes the
//! throughput of a TCP sender fall linearly.
//!
//! Compared with Linux (6.12, `codel_impl.h`), rule by rule:
//!
//! | | Linux 6.12 | here |
//! |---|---|---|
//! | defaults: target 5 ms, interval 100 ms, 1000 packets, no ECN | | the same |
//! | time | units of 1024 ns; "above for an interval" if later than, not at, its end | nanoseconds; at its end (RFC 8289 section 5.6) |
//! | nothing dropped with no more waiting than | the device's MTU and header, 1514 | [`Params::mtu`], the same |
//! | gap after drop n | interval/sqrt(n) by one Newton step from the gap before: 100, 50, 56, 49 ms ... | exact: 100, 71, 58, 50 ms ... (RFC 8289 section 5.6) |
//! | dropping again within 16 intervals | from the drops of the last episode; the first gap is one Newton step from the last one of that episode, so shorter than the law's | from the same count, exact |
//! | ECN: a packet that is marked already | passes as marked | the same |
//! | ECN: a packet that cannot be marked | dropped, and the next one judged | the same |
//! | `ce_threshold` | ECN-capable packets, or those chosen by a mask of the DS field | [`Params::ce_threshold`], or [`Params::l4s_threshold`] for ECT(1) |
//!
//! The differences that show are the second gap of an episode, 71 ms instead of 50, and the first
//! gaps of one that begins soon after another. What a closed loop of senders needs in drops does not
//! depend on either.

mod law;

use forebay_units::{Bytes, Nanos};

pub(crate) use law::{Queue, State};

use crate::error::within;
use crate::ring::{Ring, Timed};
use crate::{Backlog, ConfigError, DropSink, Limit, Packet, Qdisc, Room};

/// CoDel's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The wait that is acceptable when it persists; by default 5 ms (RFC 8289 section 4.3: 5 to
    /// 10 % of the interval). One above the interval makes of CoDel what drops at that wait and
    /// nothing finer, as some emulations have it.
    pub target: Nanos,
    /// How long the wait must stay above target before anything is dropped: the order of the
    /// longest round trip that matters. By default 100 ms (RFC 8289 section 4.2).
    pub interval: Nanos,
    /// Marks ECN-capable packets instead of dropping them; off by default, as in Linux's codel.
    pub ecn: bool,
    /// Marks every ECN-capable packet that waited longer than this, whatever the control law says;
    /// off by default. For senders that expect a shallow step marking (DCTCP).
    pub ce_threshold: Option<Nanos>,
    /// Marks every ECT(1) packet that waited longer than this, whatever the control law says; off by
    /// default. The step for L4S senders in a queue of their own (RFC 9331 section 5.4), where
    /// classic ECN is left to the control law.
    pub l4s_threshold: Option<Nanos>,
    /// Nothing is dropped while no more than this waits, so that a slow link does not starve; by
    /// default a full Ethernet frame, 1514 bytes (RFC 8289 section 4.1).
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
    /// The longest interval: four seconds, past any round trip.
    pub const MAX_INTERVAL: Nanos = Nanos::from_secs(4);

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("interval", self.interval.0, 1, Self::MAX_INTERVAL.0)?;
        within("target", self.target.0, 1, Self::MAX_INTERVAL.0)
    }
}

/// How a [`Codel`] is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How much may wait; 1000 packets by default, as in Linux. The control law keeps well below it
    /// unless traffic ignores its signals.
    pub limit: Limit,
    /// The control law's parameters.
    pub params: Params,
}

/// A first-in-first-out queue under CoDel.
#[derive(Clone, Debug)]
pub struct Codel<P> {
    queue: Ring<P>,
    params: Params,
    state: State,
}

impl<P: Packet> Codel<P> {
    /// An empty queue.
    ///
    /// # Errors
    /// If the limit lets nothing in, or the interval or the target is zero or above
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

    /// At once while anything waits, so that packets past a limit in time are cleared out too.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }
}
