//! A rate limit over any qdisc, whose rate can change many times a second.
//!
//! Credit fills at the rate, up to the burst. A packet may go while credit is not negative, and
//! takes its length off, if need be into debt; the debt is then waited for. So no packet is too
//! large for the bucket, the next packet need not be known in advance (an AQM below may change its
//! mind), and over any span of time T at most `rate x T + burst + one packet` leaves.
//!
//! Credit is kept in billionths of a bit, the product of a rate in bits per second and a time in
//! nanoseconds: nothing is ever rounded, so nothing is lost or gained however often it is updated.

use forebay_units::{Bytes, Nanos, Rate};

use crate::{Backlog, DropSink, Packet, Qdisc, Room};

/// How much may leave at once after a pause.
///
/// It makes up for a timer that fires late: what the link could have sent meanwhile is not lost, if
/// it is no more than this. All of it may hit the bottleneck in one go, so take the smallest that
/// the timer allows. Zero is allowed; the bucket then sends packet by packet, and lateness is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// What passes in this time, so that it follows the rate.
    Time(Nanos),
    /// A fixed number of bytes.
    Bytes(Bytes),
}

/// How a [`TokenBucket`] is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rate to start with; none (unlimited) by default.
    pub rate: Option<Rate>,
    /// The burst; by default [`Config::BURST`].
    pub burst: Burst,
}

impl Config {
    /// The default burst, as time at the rate: as late as a busy host's timers are. All of it may hit
    /// the bottleneck in one go, at 96 Mbit/s two packets; the 100 kB of the Bundler prototype are
    /// 8.3 ms there.
    pub const BURST: Nanos = Nanos::from_micros(250);
}

impl Default for Config {
    fn default() -> Self {
        Self { rate: None, burst: Burst::Time(Self::BURST) }
    }
}

/// A shaper: lets the packets of `child` out at a rate.
#[derive(Clone, Debug)]
pub struct TokenBucket<Q> {
    child: Q,
    burst: Burst,
    rate: Option<Rate>,
    /// At `updated`, in billionths of a bit; negative while in debt.
    credit: i128,
    updated: Nanos,
}

/// Eight bits of a billion billionths.
const PER_BYTE: i128 = 8_000_000_000;

#[inline]
fn filled(rate: Rate, time: Nanos) -> i128 {
    i128::from(rate.as_bps()).saturating_mul(i128::from(time.0))
}

impl Burst {
    #[inline]
    fn at(self, rate: Rate) -> i128 {
        match self {
            Self::Time(time) => filled(rate, time),
            Self::Bytes(bytes) => i128::from(bytes.0) * PER_BYTE,
        }
    }
}

impl<Q> TokenBucket<Q> {
    /// Over `child`. The bucket is empty at time zero, so it is full by the time of the first
    /// packet unless that comes within a burst of the origin.
    pub fn new(config: Config, child: Q) -> Self {
        let Config { rate, burst } = config;
        Self { child, burst, rate, credit: 0, updated: Nanos::ZERO }
    }

    /// Lets packets out at `rate` from now on, or all at once if `None`.
    ///
    /// Credit or debt is carried over as bytes, cut to the burst at the new rate; it is not filled
    /// up, so changing the rate often lets nothing extra through. While unlimited it stands still.
    /// At a rate of zero nothing leaves once the credit is used up.
    pub fn set_rate(&mut self, now: Nanos, rate: Option<Rate>) {
        self.credit = self.credit_at(now);
        self.updated = now;
        self.rate = rate;
    }

    /// The rate in force, `None` if unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The qdisc whose packets are shaped.
    pub fn child(&self) -> &Q {
        &self.child
    }

    /// The qdisc whose packets are shaped, to reconfigure it.
    pub fn child_mut(&mut self) -> &mut Q {
        &mut self.child
    }

    /// The credit at `now`, never more than the burst at the rate in force.
    fn credit_at(&self, now: Nanos) -> i128 {
        match self.rate {
            Some(rate) => {
                let gained = filled(rate, now.saturating_sub(self.updated));
                self.credit.saturating_add(gained).min(self.burst.at(rate))
            }
            None => self.credit,
        }
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for TokenBucket<Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        self.child.enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        if self.rate.is_none() {
            return self.child.dequeue(now, drops);
        }
        self.credit = self.credit_at(now);
        self.updated = now;
        if self.credit < 0 {
            return None;
        }
        let packet = self.child.dequeue(now, drops)?;
        self.credit -= i128::from(packet.len().0) * PER_BYTE;
        Some(packet)
    }

    fn peek(&self) -> Option<&P> {
        self.child.peek()
    }

    fn backlog(&self) -> Backlog {
        self.child.backlog()
    }

    fn probe(&self, now: Nanos, packet: &P) -> bool {
        self.child.probe(now, packet)
    }

    fn room(&self, class: u8) -> Room {
        self.child.room(class)
    }

    fn classes(&self) -> usize {
        self.child.classes()
    }

    /// Exact to the nanosecond. [`Nanos::MAX`] if the rate is zero and the credit used up.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        let child = self.child.next_event(now)?;
        let debt = self.credit_at(now).min(0).unsigned_abs();
        let Some(rate) = self.rate.filter(|_| debt > 0) else { return Some(child) };
        let wait = match rate.as_bps() {
            0 => u64::MAX,
            bps => u64::try_from(debt.div_ceil(u128::from(bps))).unwrap_or(u64::MAX),
        };
        Some(child.max(now.saturating_add(Nanos(wait))))
    }

    fn prefetch(&self, packet: &P) {
        self.child.prefetch(packet);
    }
}
