//! PI2: a queue held at a target delay by a controller whose output is squared for classic traffic.
//!
//! The rate of a Reno-friendly sender is inversely proportional to the square root of the drop
//! probability. A linear controller whose output is squared therefore works at every load with the
//! same gains, which PIE's table of gains only approximates (De Schepper, Bondarenko, Tsang and
//! Briscoe, "PI2: a linearized AQM for both classic and scalable TCP", CoNEXT 2016). L4S senders in
//! the same queue get the base probability times the coupling factor, so that both share the link
//! evenly at the same delay. For the low delay of L4S see [`crate::DualPi2`].
//!
//! | packet | signal | probability |
//! |---|---|---|
//! | Not-ECT | drop | p'^2 |
//! | ECT(0) | mark | p'^2 |
//! | ECT(1) | mark | min(1, k p') |
//! | any, once p'^2 reaches its maximum | drop, and mark the remaining ECT(1) | p'^2 |
//!
//! The paper's parameters are a target of 20 ms and an update every 32 ms with gains 5/16 and
//! 50/16; the defaults here are the later ones of RFC 9332.

mod control;

use forebay_units::{Bytes, Nanos};

pub(crate) use control::Control;
pub use control::Params;

use crate::coupled::{Coins, Marking, Signals, Verdict};
use crate::error::{real_within, within};
use crate::flow_hash::DEFAULT_SEED;
use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropSink, Limit, Packet, Qdisc, Room};

/// The configuration of a [`Pi2`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The limit of the queue; 1000 packets by default.
    pub limit: Limit,
    /// The controller's parameters.
    pub params: Params,
    /// The coupling factor k: the ratio of the L4S marking probability to the square root of the
    /// classic drop probability; 2 by default (RFC 9332 section 2.5.1).
    pub coupling: f64,
    /// The classic probability from which ECN-capable packets are dropped as well; 1/k^2 by
    /// default, where every L4S packet is marked (RFC 9332 Figure 2, line 11).
    pub max_classic: Option<f64>,
    /// The way in which packets are chosen for signals; random by default.
    pub marking: Marking,
    /// The length of a full frame, 1514 bytes by default. With less than two of them waiting there
    /// are no signals (RFC 9332 appendix A.1).
    pub mtu: Bytes,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: Limit::default(),
            params: Params::default(),
            coupling: 2.0,
            max_classic: None,
            marking: Marking::Random,
            mtu: Bytes(1514),
            seed: DEFAULT_SEED,
        }
    }
}

/// The smallest and the largest coupling factor. Below one L4S traffic would get fewer signals than
/// classic traffic.
pub const COUPLINGS: (f64, f64) = (1.0, 1000.0);

/// Checks the coupling factor k and the classic maximum p_Cmax, and returns the latter.
pub(crate) fn check_coupling(k: f64, max_classic: Option<f64>) -> Result<f64, ConfigError> {
    real_within("coupling", k, COUPLINGS.0, COUPLINGS.1)?;
    let most = max_classic.unwrap_or(1.0 / (k * k));
    real_within("max_classic", most, 0.0, 1.0)?;
    Ok(most)
}

/// A first-in-first-out queue controlled by PI2.
#[derive(Clone, Debug)]
pub struct Pi2<P> {
    queue: Ring<P>,
    control: Control,
    coins: Coins,
    coupling: f64,
    max_classic: f64,
    exempt_below: Bytes,
}

impl<P: Packet> Pi2<P> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Fails if the limit admits no packet, the target or the MTU is zero, the update time is below
    /// a microsecond, a time is above [`Params::MAX_TIME`], a gain is negative or above
    /// [`Params::MAX_GAIN`], the coupling factor is below 1 or above 1000, or the classic maximum
    /// is not a probability.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.params.check()?;
        within("mtu", config.mtu.0, 1, u64::from(u32::MAX))?;
        let max_classic = check_coupling(config.coupling, config.max_classic)?;
        Ok(Self {
            queue: Ring::new(config.limit)?,
            control: Control::new(config.params, 1.0),
            coins: Coins::new(config.marking, config.seed),
            coupling: config.coupling,
            max_classic,
            exempt_below: Bytes(2 * config.mtu.0),
        })
    }

    /// Returns the base probability p' as of the last enqueue or dequeue, from 0 to 1.
    pub fn probability(&self) -> f64 {
        self.control.base()
    }

    fn advance(&mut self, now: Nanos) {
        if self.control.is_due(now) {
            while let Some(at) = self.control.take(now) {
                self.control.update(self.queue.head_sojourn(at));
            }
        }
    }

    fn signals(&self) -> Signals {
        let base = self.control.base();
        let classic = base * base;
        let overload = (classic >= self.max_classic).then_some(classic);
        Signals { scalable: (self.coupling * base).min(1.0), classic, overload }
    }
}

impl<P: Packet> Qdisc<P> for Pi2<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        self.advance(now);
        self.queue.push(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        self.advance(now);
        self.queue.expire(now, drops);
        let signals = self.signals();
        loop {
            let exempt = self.queue.backlog().bytes < self.exempt_below;
            let mut packet = self.queue.pop()?.packet;
            if exempt {
                return Some(packet);
            }
            match self.coins.judge(packet.ecn(), &signals) {
                Verdict::Pass => {}
                Verdict::Mark => packet.set_ce(),
                Verdict::Drop(reason) => {
                    drops.dropped(packet, reason);
                    continue;
                }
            }
            return Some(packet);
        }
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

    /// Returns `now` while packets wait. The last packet may still be dropped if it is longer than
    /// two full frames; `dequeue` returns `None` then.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }
}
