//! A rate limit over any qdisc, whose rate can change many times a second.
//!
//! Credit accumulates at the rate, up to the burst. A packet may leave while the credit is not
//! negative, and its length is subtracted. The result may be a debt, and the next packet waits
//! until it is paid. So no packet is too large for the bucket, and the shaper need not know the
//! next packet in advance (an AQM below may drop it).
//!
//! While packets wait, credit beyond the burst shows that a timer was late: they could have left
//! before. This credit is kept up to a second limit, so a late timer costs no throughput, and an
//! idle bucket still lets no more than the burst go at once. In any time span T at most `rate x T +
//! the larger of both limits + one packet` leaves.
//!
//! Credit is in billionths of a bit, the product of a rate in bits per second and a time in
//! nanoseconds. Updates are exact, so the number of updates does not change the result.

use forebay_units::{Bytes, Nanos, Rate};

use crate::{Backlog, DropSink, Packet, Qdisc, Room};

/// The amount that may leave at once after a pause in which no packet waited.
///
/// All of it may reach the bottleneck at once. With zero the bucket sends packet by packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// The amount that passes in this time at the current rate.
    Time(Nanos),
    /// A fixed number of bytes.
    Bytes(Bytes),
}

/// The configuration of a [`TokenBucket`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The initial rate; `None` (the default) means unlimited.
    pub rate: Option<Rate>,
    /// The burst; [`Config::BURST`] by default.
    pub burst: Burst,
    /// How late a timer may be without a loss of rate; [`Config::LATE`] by default. What should
    /// have left in this time leaves at once then, while the bottleneck was idle as long. Time at
    /// which packets waited longer than this is lost, unless the burst is larger.
    pub late: Nanos,
}

impl Config {
    /// The default burst as time at the rate: the typical delay of timers on a busy host. At 96
    /// Mbit/s these are two packets; the 100 kB of the Bundler prototype are 8.3 ms at that rate.
    pub const BURST: Nanos = Nanos::from_micros(250);

    /// The default lateness that is made up for: a tick of a kernel with 250 ticks a second, which
    /// is the precision of its timers without `CONFIG_HIGH_RES_TIMERS`. Sleeps of a busy virtual
    /// machine are 2 ms late at the 99th percentile (`forebay doctor` measures them).
    pub const LATE: Nanos = Nanos::from_millis(4);
}

impl Default for Config {
    fn default() -> Self {
        Self { rate: None, burst: Burst::Time(Self::BURST), late: Self::LATE }
    }
}

/// A shaper that limits the rate at which the packets of its child qdisc leave.
#[derive(Clone, Debug)]
pub struct TokenBucket<Q> {
    child: Q,
    burst: Burst,
    late: Nanos,
    rate: Option<Rate>,
    /// The credit at `updated`, in billionths of a bit; negative while in debt.
    credit: i128,
    updated: Nanos,
    /// Whether packets have waited since `updated`.
    waiting: bool,
}

/// The credit that one byte costs: eight bits in billionths of a bit.
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
    /// Creates a shaper over `child`. The bucket is empty at time zero and fills from then on.
    pub fn new(config: Config, child: Q) -> Self {
        let Config { rate, burst, late } = config;
        Self { child, burst, late, rate, credit: 0, updated: Nanos::ZERO, waiting: false }
    }

    /// Sets the rate from now on; `None` means unlimited.
    ///
    /// Credit or debt carries over in bytes, limited to the burst at the new rate. The bucket is
    /// not refilled, so frequent changes of the rate admit no extra packets. Credit does not change
    /// while the rate is unlimited. At a rate of zero nothing leaves once the credit is used up.
    pub fn set_rate(&mut self, now: Nanos, rate: Option<Rate>) {
        self.settle(now);
        // Nothing is noted of what waits while the rate is unlimited.
        self.waiting &= self.rate.is_some();
        self.rate = rate;
    }

    /// Sets the burst from now on. Credit beyond it is lost.
    pub fn set_burst(&mut self, now: Nanos, burst: Burst) {
        self.settle(now);
        self.burst = burst;
    }

    /// Returns the current rate, or `None` if unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Returns the qdisc whose packets are shaped.
    pub fn child(&self) -> &Q {
        &self.child
    }

    /// Returns the qdisc whose packets are shaped, for reconfiguration.
    pub fn child_mut(&mut self) -> &mut Q {
        &mut self.child
    }

    /// Returns the credit at `now`, within its limit at the current rate.
    fn credit_at(&self, now: Nanos) -> i128 {
        match self.rate {
            Some(rate) => {
                let late = if self.waiting { filled(rate, self.late) } else { 0 };
                let gained = filled(rate, now.saturating_sub(self.updated));
                self.credit.saturating_add(gained).min(self.burst.at(rate).max(late))
            }
            None => self.credit,
        }
    }

    fn settle(&mut self, now: Nanos) {
        self.credit = self.credit_at(now);
        self.updated = now;
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for TokenBucket<Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        if !self.waiting {
            self.settle(now);
            self.waiting = true;
        }
        self.child.enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        if self.rate.is_none() {
            return self.child.dequeue(now, drops);
        }
        self.settle(now);
        if self.credit < 0 {
            return None;
        }
        let packet = self.child.dequeue(now, drops);
        if let Some(packet) = &packet {
            self.credit -= i128::from(packet.len().0) * PER_BYTE;
        }
        // A child that has packets and sends none waits for a time of its own.
        self.waiting = packet.is_some() && self.child.backlog().packets > 0;
        packet
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

    /// Returns the exact time in nanoseconds, or [`Nanos::MAX`] if the rate is zero and the credit
    /// is used up.
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
