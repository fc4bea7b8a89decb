//! PI2: a queue held at a target delay by a controller whose output is squared for classic traffic.
//!
//! The rate of a Reno-friendly sender falls with the square root of the drop probability, so a
//! linear controller with its output squared controls it at every load with the same gains; PIE's
//! table of gains only approaches that (De Schepper, Bondarenko, Tsang and Briscoe, "PI2: a
//! linearized AQM for both classic and scalable TCP", CoNEXT 2016). L4S senders in the same queue get
//! the probability times the coupling factor instead, which lets both share the link evenly, at one
//! delay; for L4S's own low delay see [`crate::DualPi2`].
//!
//! | packet | signal | probability |
//! |---|---|---|
//! | Not-ECT | drop | p'^2 |
//! | ECT(0) | mark | p'^2 |
//! | ECT(1) | mark | min(1, k p') |
//! | any, once p'^2 reaches its maximum | drop, and mark what is left of ECT(1) | p'^2 |
//!
//! The paper's parameters are a target of 20 ms and an update every 32 ms with gains 5/16 and 50/16;
//! the defaults here are the later ones of RFC 9332.

mod control;

use forebay_units::{Bytes, Nanos};

pub(crate) use control::Control;
pub use control::Params;

use crate::coupled::{Coins, Marking, Signals, Verdict};
use crate::error::{real_within, within};
use crate::flow_hash::DEFAULT_SEED;
use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropSink, Limit, Packet, Qdisc, Room};

/// How a [`Pi2`] is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// How much may wait; 1000 packets by default.
    pub limit: Limit,
    /// The controller's parameters.
    pub params: Params,
    /// k, the marks of L4S traffic for the root of the drops of classic traffic; by default 2 (RFC
    /// 9332 section 2.5.1).
    pub coupling: f64,
    /// The classic probability from which on ECN-capable packets are dropped too; by default 1/k^2,
    /// where every L4S packet is marked (RFC 9332 Figure 2, line 11).
    pub max_classic: Option<f64>,
    /// How packets are chosen; at random by default.
    pub marking: Marking,
    /// A full frame, 1514 bytes by default: with less than two of them waiting there are no signals
    /// (RFC 9332 appendix A.1).
    pub mtu: Bytes,
    /// Seeds the dice.
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

/// The range of coupling factors: below one L4S traffic would be signalled to less than classic.
pub const COUPLINGS: (f64, f64) = (1.0, 1000.0);

/// Checks k and p_Cmax, and gives the latter.
pub(crate) fn check_coupling(k: f64, max_classic: Option<f64>) -> Result<f64, ConfigError> {
    real_within("coupling", k, COUPLINGS.0, COUPLINGS.1)?;
    let most = max_classic.unwrap_or(1.0 / (k * k));
    real_within("max_classic", most, 0.0, 1.0)?;
    Ok(most)
}

/// A first-in-first-out queue under PI2.
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
    /// An empty queue.
    ///
    /// # Errors
    /// If the limit lets nothing in, the target or the MTU is zero, the update time is below a
    /// microsecond, a time is above [`Params::MAX_TIME`], a gain is negative or above
    /// [`Params::MAX_GAIN`], the coupling factor is below 1 or above 1000, or the classic maximum is
    /// no probability.
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

    /// The base probability p' as of the last packet in or out, from 0 to 1.
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

    /// At once while anything waits. A packet longer than two full frames may be dropped as the last
    /// one, and nothing goes then.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }
}
